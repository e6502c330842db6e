//! Hooks: callbacks around every allocation.
//!
//! [`MemoryHook`] is the contract of CuPy's `MemoryHook` (`cupy/cuda/memory_hook.pyx`); [`DebugPrintHook`],
//! [`LineProfileHook`] and [`CupyMemoryProfileHook`] are built on it.

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

/// Callbacks around taking memory from the device, taking blocks from the pool and giving them back.
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
/// By default the callbacks do nothing. A hook is registered for the current thread ([`register`]), as in
/// CuPy, or for all threads of a pool ([`MemoryPool::register_hook`](crate::MemoryPool::register_hook)).
///
/// # What an error or a panic does
/// A preprocess callback of `malloc` or `alloc` may refuse: hooks after it are not called, nothing is
/// allocated, and the request fails with [`AllocError::Hook`](crate::AllocError::Hook). After a refusal in
/// `malloc_preprocess` no postprocess callback follows; after one in `alloc_preprocess`,
/// `malloc_postprocess` does. A panic in a postprocess callback passes through `malloc`, and the memory goes
/// back to the pool (with free callbacks). A free cannot be refused: a panic in a free callback reaches the
/// caller after the block went back and every other hook was told.
///
/// # What differs from CuPy
/// - A free is seen by the hooks of the thread that frees *and* by those that saw the allocation, whichever
///   thread they are registered on, once each. CuPy's hooks miss frees on other threads.
/// - `pmem_id` is never used again. CuPy's is an address, and Python reuses addresses.
/// - `device_id` is the device's own. In CuPy 14 that of `alloc_*` and `malloc_*` is the same for all devices.
/// - In place of CuPy's error 0, a request of no bytes has a `pmem_id` like any other; as in CuPy, it has no
///   address, takes nothing from the device and is never freed.
/// - Hooks may be registered and removed inside a callback; it holds from the next event on. Allocations
///   made inside a callback are told to no hook, nor is their end, so that a hook may allocate. The end of
///   any other allocation is told wherever it comes, so a hook must not hold a lock while it drops one.
/// - Memory given back to the device is recorded by the [history](crate::HistoryOptions) and counted in the
///   [statistics](crate::Statistics); it has no callback, as in CuPy.
pub trait MemoryHook: Send + Sync {
    /// The name under which it is registered: one of each name at a time.
    fn name(&self) -> &str {
        "MemoryHook"
    }

    /// Called before memory is taken from the device.
    ///
    /// # Errors
    /// An error refuses the request, which then fails with [`HookError::Refused`].
    fn alloc_preprocess(&self, event: &AllocPreprocess) -> Result<(), BoxedError> {
        let _ = event;
        Ok(())
    }

    /// Called after memory was taken from the device, or was not.
    fn alloc_postprocess(&self, event: &AllocPostprocess) {
        let _ = event;
    }

    /// Called before a block is taken from the pool.
    ///
    /// # Errors
    /// An error refuses the request, which then fails with [`HookError::Refused`].
    fn malloc_preprocess(&self, event: &MallocPreprocess) -> Result<(), BoxedError> {
        let _ = event;
        Ok(())
    }

    /// Called after a block was taken from the pool, or was not.
    fn malloc_postprocess(&self, event: &MallocPostprocess) {
        let _ = event;
    }

    /// Called before a block goes back to the pool.
    fn free_preprocess(&self, event: &Free) {
        let _ = event;
    }

    /// Called after a block went back to the pool.
    fn free_postprocess(&self, event: &Free) {
        let _ = event;
    }
}

/// A hook's own error.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Before memory is taken from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocPreprocess {
    /// The number of the device.
    pub device_id: i32,
    /// Bytes to be taken.
    pub mem_size: u64,
}

/// After memory was taken from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocPostprocess {
    /// The number of the device.
    pub device_id: i32,
    /// Bytes taken; for expandable segments, bytes mapped.
    pub mem_size: u64,
    /// Their address; 0 if the device had none.
    pub mem_ptr: u64,
}

/// Before a block is taken from the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MallocPreprocess {
    /// The number of the device.
    pub device_id: i32,
    /// Bytes requested.
    pub size: u64,
    /// Bytes after rounding.
    pub mem_size: u64,
}

/// After a block was taken from the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MallocPostprocess {
    /// The number of the device.
    pub device_id: i32,
    /// Bytes requested.
    pub size: u64,
    /// Bytes of the block; after rounding only, if there is none.
    pub mem_size: u64,
    /// Its address; 0 if the request failed or was of no bytes.
    pub mem_ptr: u64,
    /// The allocation's id, never used again; 0 if the request failed.
    pub pmem_id: u64,
}

/// Before and after a block goes back to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// The number of the device.
    pub device_id: i32,
    /// Bytes of the block.
    pub mem_size: u64,
    /// The block's first byte on the device.
    pub mem_ptr: u64,
    /// The allocation's id, as `malloc_postprocess` had it.
    pub pmem_id: u64,
}

/// Why a hook was not registered, or a request was refused by one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HookError {
    /// One of that name is registered already.
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
