//! The rules of PyTorch's and CuPy's caching allocators as plain data ([`Policy`]), and an engine that follows them.
//!
//! This crate makes no calls to the operating system. Memory comes from a [`Device`], which may have only addresses
//! ([`VirtualDevice`]). An [`Observer`] receives events. [`CachingAllocator`] drives the engine step by step, as a replay does. The
//! pools of `vramscope-allocator` use [`Engine`] directly.
//!
//! ```text
//!   caching_allocator        start, growth, summary
//!            \               |
//!             engine: a device's arenas, peaks and private pools
//!                |
//!             arena: blocks of one pool on one stream, with one lock       pending: blocks that wait for streams
//!                |
//!             core: memory taken from the device               statistics
//!                |
//!             policy, device, observer
//! ```
//!
//! # Modules
//! - `policy`: all differences between CuPy's allocator and PyTorch's releases, as plain data. Nothing else selects an allocator's
//!   behavior. The analysis reads recordings with the same policies.
//! - `arena`: segments, and blocks in lists without gaps. `requests` allocates and frees; a cached block needs only `find` and
//!   `commit`. `blocks` keeps the list of blocks, `segments` takes and releases device memory, and `free_blocks` has the search order.
//!   `expandable` grows segments page by page, at the place that `unmapped` finds. `planned` places blocks at the addresses of a plan, and
//!   `shared` orders the streams that share them.
//! - `growth`: one function with all steps, in order, for a request that no cached block can serve: callbacks, garbage collection,
//!   limit, device, freeing the cache, out of memory. An error or a panic frees the unfinished block (`HeldBlock`).
//! - `plan`: planned requests, and the position of a program among them.
//! - `caching_allocator`: the engine driven step by step, for replay: frees in two steps, pools by name. `start` places the segments that
//!   existed before the first step.
//! - `statistics`: exact peaks of a device whose arenas share no lock. `summary`: statistics of the small and the large pool, computed
//!   on request.
//! - `ranges`: values of byte ranges.
//! - `core`: state that arenas share, and the device's accounts. A call to the device and its event in the history happen under one lock.
//! - `observer`: the interface between an engine and the program around it. `Unobserved` costs nothing.
//! - `address_space`: free and taken address ranges.
//! - `arena_key`: the pool and the stream of a block.
//! - `callbacks`: callbacks around requests to the device.
//! - `device`: the source of memory.
//! - `engine`: the caching allocator of one device.
//! - `error`: errors of allocation requests.
//! - `layout`: the segments and blocks of an engine, as a snapshot shows them.
//! - `pending`: freed blocks that wait until other streams have completed the work that uses them.
//! - `table`: lock-free lookup of arenas by pool and stream.
//! - `virtual_device`: a device with addresses but without memory.

mod address_space;
mod arena;
mod arena_key;
mod caching_allocator;
mod callbacks;
mod core;
mod device;
mod engine;
mod error;
mod growth;
mod layout;
mod observer;
mod pending;
mod plan;
mod policy;
mod ranges;
mod start;
mod statistics;
mod summary;
mod table;
mod virtual_device;

pub use address_space::AddressSpace;
pub use arena::{Arena, BlockKey, Grant, NotPlaced, PlannedPlace, StreamUse};
pub use arena_key::{ArenaKey, PLANNED};
pub use caching_allocator::{CachingAllocator, Installed, LiveBlock, PendingBlock};
pub use callbacks::{AllocCallbacks, NoCallbacks};
pub use device::{DEVICE_PAGE, Device, DeviceError, EventId, MemoryInfo, VirtualMemory, guarded};
pub use engine::{Engine, FreeMemoryCallback, LockedEngine, NO_ARENA};
pub use error::{EngineError, OutOfMemory};
pub use layout::{BlockLayout, SegmentLayout};
pub use observer::{DeviceEvent, Observer, Unobserved};
pub use plan::{BadPlan, Plan, PlanFollower, PlanUse, Planned, PlannedRequest, Served};
pub use policy::{
    Allocator, BLOCK_UNIT, Class, LimitCheck, Policy, Reclaim, Rounding, SearchOrder, SegmentSizes,
};
pub use start::{BadLayout, StartBlock, StartSegment};
pub use statistics::{AtPeak, ScopeKey, ScopePeaks, Stat, Statistics};
pub use summary::{MemorySummary, Metric, PartialStat};
pub use virtual_device::VirtualDevice;
pub use vramscope_trace::TorchRelease;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
