//! A caching GPU memory pool with instrumentation: on a GPU, on the host, or without any device memory.
//!
//! A [`MemoryPool`] behaves exactly like CuPy's or PyTorch's pool, as its [`Policy`] specifies. A policy is plain data. A pool can be
//! observed in four ways:
//!
//! - [`Statistics`] and [`PeakScope`]: bytes of the five kinds, with nested peaks
//! - [`hooks::MemoryHook`]: callbacks around every request, of a thread or of a pool
//! - [`hooks::LineProfileHook`] and [`hooks::CupyMemoryProfileHook`]: memory by source line and by function
//! - [`HistoryOptions`]: every event with its stack, as a snapshot that memory_viz and `vramscope report` open, or as a file that is
//!   written while the program runs
//!
//! ```
//! use vramscope_allocator::{HistoryOptions, MemoryPool, Policy};
//!
//! let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
//! pool.record_memory_history(&HistoryOptions::default())?;
//! let weights = pool.malloc(1_000_000)?;
//! drop(pool.malloc(500_000)?);
//! assert_eq!(pool.used_bytes(), 1_000_448);
//! assert_eq!(pool.statistics().allocated.peak, 1_500_672);
//!
//! let trace = pool.snapshot()?;
//! assert_eq!(trace.devices[0].events.len(), 6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Devices
//! A [`Device`] provides segments of memory: [`HostDevice`] from the host, `CudaDevice` (feature `cuda`) from a GPU, through the driver
//! found at run time. [`VirtualDevice`] provides addresses without memory.
//!
//! # Modules
//! ```text
//!   pool/     MemoryPool, DevicePool, Allocation          hooks/   callbacks
//!      |
//!      |---- the engine, observed by pool/pool_observer.rs
//!      v
//!   device/     history/  --> Trace, or a log on disk     stacks/
//! ```
//! - `pool`: `memory_summary` prints PyTorch's table.
//! - `hooks`: `registry` holds the registered hooks. `line_profile` and `function` count bytes, and resolve symbols only for a report.
//! - `history`: a ring of events for each device, recorded under the same locks as the changes. `snapshot` makes a trace. `stream` writes a
//!   log on separate threads: events with addresses first, symbols later. `exclusive_file` locks the log: a second writer is refused, and a
//!   removed or replaced log is an error.
//! - `stacks`: `unwind` walks the stack with cached unwind rules, about 13 ns for each frame. `objects` copies the unwind tables of loaded
//!   objects. `symbols` resolves each address once, when a report or a snapshot needs it. `table_memory` counts the host memory of the
//!   unwind tables and the debug information.
//! - `device`: host memory, and a GPU through the driver, which is found at run time. `process` detects a fork.
//! - `threads`: numbers of threads, and of their per-thread default streams.
//!
//! # Locks
//! Locks are taken in one order: the ledger of peaks, the arenas in the order of their table, the device's accounts, the history, the
//! stores behind it. Only the device's code runs under one of them. Hooks, callbacks, observers and stack sources run with no lock held.
//!
//! # Forked processes
//! A forked process has a copy of every lock, including locks that other threads held, but not the threads that would release them. So a
//! child must not use the objects of its parent:
//!
//! - Requests to the parent's pools fail ([`AllocError::Forked`]), and recordings do not begin ([`HistoryError::Forked`]).
//! - A child may drop a pool, an allocation or a guard, and in `vramscope-profiler` a monitor, a profiled call, a call of the leak
//!   detector, a phase, a tracker, an endpoint or a live server. Dropping takes no lock, waits for no thread, and leaves the parent's
//!   recording, log and socket alone.
//! - Do not read the parent's statistics, snapshots or results in the child: the call may wait forever.
//! - Objects that the child makes work, with one exception. If another thread registered a hook for itself, or read the tables for native
//!   stacks, at the moment of the fork, the child must do neither.
//! - A child's copy of a listening socket stays open until the child ends or calls `exec`.
//! - Processes from `std::process::Command` are not affected. Forks by the bare system call, around the C library, are not detected.

mod device;
mod history;
pub mod hooks;
mod pool;
mod stacks;
mod threads;

#[cfg(feature = "cuda")]
pub use device::CudaDevice;
pub use device::{HostDevice, Process};
pub use history::{
    Context, Enabled, ExclusiveFile, HistoryOptions, UserMetadata, set_user_metadata, user_metadata,
};
pub use pool::{
    AllocError, Allocation, DevicePool, HistoryError, Limit, LimitError, MemoryPool, OomObserver, PeakScope,
    PrivatePool, RegionGuard, SnapshotError, WeakPool,
};
pub use stacks::{
    CapturedStack, NO_LINES, SourceFrame, StackRecorder, StackSource, Stacks, symbol_table_bytes,
};
pub use vramscope_engine::{
    Allocator, AtPeak, BLOCK_UNIT, DEVICE_PAGE, Device, DeviceError, EventId, FreeMemoryCallback, LimitCheck,
    MemoryInfo, OutOfMemory, Policy, Reclaim, ScopePeaks, SearchOrder, SegmentSizes, Stat, Statistics,
    TorchRelease, VirtualDevice, VirtualMemory,
};

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
