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
mod policy;
mod start;
mod statistics;
mod summary;
mod table;
mod virtual_device;

pub use address_space::AddressSpace;
pub use arena::{Arena, BlockKey, Grant};
pub use arena_key::ArenaKey;
pub use caching_allocator::{CachingAllocator, Installed, LiveBlock, PendingBlock};
pub use callbacks::{AllocCallbacks, NoCallbacks};
pub use device::{DEVICE_PAGE, Device, DeviceError, EventId, MemoryInfo, VirtualMemory, guarded};
pub use engine::{Engine, FreeMemoryCallback, LockedEngine, NO_ARENA};
pub use error::{AllocError, OutOfMemory};
pub use layout::{BlockLayout, SegmentLayout};
pub use observer::{DeviceEvent, Observer, Unobserved};
pub use policy::{Allocator, BLOCK_UNIT, Class, LimitCheck, Policy, Reclaim, SearchOrder, SegmentSizes};
pub use start::{BadLayout, StartBlock, StartSegment};
pub use statistics::{AtPeak, Peaks, ScopeKey, Stat, Statistics};
pub use summary::{Metric, PartialStat, Summary};
pub use virtual_device::VirtualDevice;
pub use vramscope_trace::TorchRelease;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
