//! A caching GPU memory pool with instrumentation: on a GPU, on the host, or without any device memory.
//!
//! A [`MemoryPool`] behaves exactly like CuPy's or PyTorch's pool, as its [`Policy`] specifies. A policy is plain data. There are four ways
//! to observe a pool:
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
    PrivatePool, Region, SnapshotError, WeakPool,
};
pub use stacks::{
    CapturedStack, NO_LINES, SourceFrame, StackRecorder, StackSource, Stacks, symbol_table_bytes,
};
pub use vramscope_engine::{
    Allocator, AtPeak, BLOCK_UNIT, DEVICE_PAGE, Device, DeviceError, EventId, FreeMemoryCallback, LimitCheck,
    MemoryInfo, OutOfMemory, Peaks, Policy, Reclaim, SearchOrder, SegmentSizes, Stat, Statistics,
    TorchRelease, VirtualDevice, VirtualMemory,
};

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
