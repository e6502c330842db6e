//! Hooks: callbacks around every allocation.
//!
//! [`MemoryHook`] is the contract of CuPy's `MemoryHook` (`cupy/cuda/memory_hook.pyx`). [`DebugPrintHook`], [`LineProfileHook`] and
//! [`CupyMemoryProfileHook`] are built on it.

mod debug_print;
pub mod function;
pub mod line_profile;
mod registry;

use thiserror::Error;

pub use debug_print::DebugPrintHook;
pub use function::{CupyMemoryProfileHook, Function, FunctionHook};
pub use line_profile::LineProfileHook;
pub(crate) use registry::{
    AllocationHooks, DeviceHooks, Hooks, HooksAtMalloc, MallocGuard, PoolHooks, around_free,
    is_told_to_nobody,
};
pub use registry::{HookGuard, register};

/// Callbacks around device allocations, pool allocations and frees.
///
/// ```text
///   malloc(size):
///     malloc_preprocess                of every hook, in the order of registration
///     look for a cached free block
///     if there is none, up to three times:
///         alloc_preprocess             of every hook
///         ask the device
///         alloc_postprocess            of every hook, also if the device had nothing (mem_ptr 0)
///     malloc_postprocess               of every hook, also if it failed (mem_ptr 0)
///
///   free:
///     free_preprocess                  of every hook
///     give the block back to the pool
///     free_postprocess                 of every hook
/// ```
///
/// The default implementations do nothing. A hook is registered for the current thread ([`register`]), as in CuPy, or for all threads of a
/// pool ([`MemoryPool::register_hook`](crate::MemoryPool::register_hook)).
///
/// # Errors and panics in callbacks
/// A preprocess callback of `malloc` or `alloc` may refuse the request. Then later hooks do not run, nothing is allocated, and the request
/// fails with [`AllocError::Hook`](crate::AllocError::Hook). After a refusal in `malloc_preprocess` no postprocess callback runs; after a
/// refusal in `alloc_preprocess`, `malloc_postprocess` runs. A panic in a postprocess callback passes through `malloc`. The memory returns
/// to the pool, and free callbacks run. A free cannot be refused: a panic in a free callback reaches the caller after the block was freed
/// and every other hook ran.
///
/// # Differences from CuPy
/// - A free runs the freeing thread's hooks *and* the hooks that ran at the allocation, even if they are registered for another thread.
///   Each runs once. CuPy's hooks miss frees on other threads.
/// - A `pmem_id` is never reused. CuPy's is an address, and Python reuses addresses.
/// - `device_id` is the id of the event's device. In CuPy 14, `alloc_*` and `malloc_*` have the same id for all devices.
/// - A request of zero bytes has a `pmem_id` like any other request. As in CuPy, it has no address, takes no memory from the device and is
///   never freed.
/// - A callback may register and remove hooks; the change takes effect with the next event. Allocations made inside a callback run no
///   hooks, and neither do their frees, so a hook may allocate. The free of any other allocation always runs hooks, so a hook must not hold
///   a lock while it drops one.
/// - The [history](crate::HistoryOptions) records memory released to the device, and the [statistics](crate::Statistics) count it. It has
///   no callback, as in CuPy.
#[allow(unused_variables, reason = "the default callbacks do nothing")]
pub trait MemoryHook: Send + Sync {
    /// Returns the hook's name, unique per thread or pool.
    fn name(&self) -> &str {
        "MemoryHook"
    }

    /// Called before the pool allocates memory from the device.
    ///
    /// # Errors
    /// An error refuses the request, which then fails with [`HookError::Refused`].
    fn alloc_preprocess(&self, event: &AllocPreprocess) -> Result<(), BoxedError> {
        Ok(())
    }

    /// Called after the pool allocated memory from the device, or failed to.
    fn alloc_postprocess(&self, event: &AllocPostprocess) {}

    /// Called before a block is allocated from the pool.
    ///
    /// # Errors
    /// An error refuses the request, which then fails with [`HookError::Refused`].
    fn malloc_preprocess(&self, event: &MallocPreprocess) -> Result<(), BoxedError> {
        Ok(())
    }

    /// Called after a block was allocated from the pool, or the request failed.
    fn malloc_postprocess(&self, event: &MallocPostprocess) {}

    /// Called before a block is freed to the pool.
    fn free_preprocess(&self, event: &Free) {}

    /// Called after a block was freed to the pool.
    fn free_postprocess(&self, event: &Free) {}
}

/// An error that a hook returns.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// The event before the pool allocates memory from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocPreprocess {
    /// The device id.
    pub device_id: i32,
    /// Bytes to allocate.
    pub mem_size: u64,
}

/// The event after the pool allocated memory from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocPostprocess {
    /// The device id.
    pub device_id: i32,
    /// Bytes allocated; for expandable segments, bytes mapped.
    pub mem_size: u64,
    /// The address; 0 if the device was out of memory.
    pub mem_ptr: u64,
}

/// The event before a block is allocated from the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MallocPreprocess {
    /// The device id.
    pub device_id: i32,
    /// Bytes requested.
    pub size: u64,
    /// Bytes after rounding.
    pub mem_size: u64,
}

/// The event after a block was allocated from the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MallocPostprocess {
    /// The device id.
    pub device_id: i32,
    /// Bytes requested.
    pub size: u64,
    /// Bytes of the block; the rounded request if the request failed.
    pub mem_size: u64,
    /// The address; 0 if the request failed or had zero bytes.
    pub mem_ptr: u64,
    /// The allocation's id, never reused; 0 if the request failed.
    pub pmem_id: u64,
}

/// The event before and after a block is freed to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// The device id.
    pub device_id: i32,
    /// Bytes of the block.
    pub mem_size: u64,
    /// Device address of the block's first byte.
    pub mem_ptr: u64,
    /// The allocation's id, as in `malloc_postprocess`.
    pub pmem_id: u64,
}

/// An error of registering a hook, or a request that a hook refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HookError {
    /// A hook of that name is already registered.
    #[error("memory hook {name} already exists")]
    AlreadyExists {
        /// The name of the hook.
        name: String,
    },
    /// A preprocess callback refused a request.
    #[error("memory hook {name} refused: {why}")]
    Refused {
        /// The name of the hook.
        name: String,
        /// The error that its callback returned.
        #[source]
        why: BoxedError,
    },
}
