//! A live allocation.

use std::sync::Arc;

use vramscope_engine::{Arena, BlockKey, DeviceError, Grant};

use super::pool_observer::PoolObserver;
use crate::history::When;
use crate::hooks::{Free, HooksAtMalloc, around_free, is_told_to_nobody};
use crate::threads;

/// Memory from a pool. Dropping it on any thread frees it to the pool.
///
/// It stays valid after the pool is dropped: its segment is released to the device together with the last allocation on the same stream. An
/// allocation of zero bytes has address 0, and dropping it frees nothing.
#[must_use = "dropping the allocation frees its memory"]
pub struct Allocation {
    arena: Arc<Arena<PoolObserver>>,
    /// `None` for an allocation of zero bytes.
    block: Option<BlockKey>,
    address: u64,
    size: u64,
    requested: u64,
    id: u64,
    at_malloc: HooksAtMalloc,
}

impl Allocation {
    #[inline(always)]
    pub(super) fn new(arena: &Arc<Arena<PoolObserver>>, grant: Grant, at_malloc: HooksAtMalloc) -> Self {
        let Grant { block, address, size, requested, id } = grant;
        Self { arena: Arc::clone(arena), block: Some(block), address, size, requested, id, at_malloc }
    }

    pub(super) fn of_no_bytes(arena: &Arc<Arena<PoolObserver>>) -> Self {
        let (arena, id) = (Arc::clone(arena), arena.next_id());
        Self { arena, block: None, address: 0, size: 0, requested: 0, id, at_malloc: HooksAtMalloc::Nobody }
    }

    /// Returns the device address; 0 for an allocation of zero bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the address as a pointer. It may be dereferenced only if the device's memory is host memory.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address() as usize)
    }

    /// Returns the requested size in bytes.
    pub fn requested_size(&self) -> u64 {
        self.requested
    }

    /// Returns the block's size in bytes, at least the requested size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the allocation's id, unique in this process and never reused. Hooks see it as `pmem_id`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the device's id.
    pub fn device_id(&self) -> i32 {
        self.arena.device_id()
    }

    /// Returns the raw stream as passed to the allocation.
    pub fn stream(&self) -> u64 {
        let stream = self.block.map_or(self.arena.key().stream, |block| self.arena.stream_of(block));
        if threads::is_own_stream(stream) { threads::STREAM_PER_THREAD } else { stream }
    }

    /// Declares that work on another stream also uses the memory. After it is freed, the memory is not reused before that stream has
    /// finished the work queued until then (`Tensor.record_stream`, PyTorch).
    ///
    /// # Errors
    /// The device cannot wait for that stream.
    pub fn record_stream(&self, stream: u64) -> Result<(), DeviceError> {
        let Some(block) = self.block.filter(|_| self.arena.observer().process.is_this()) else {
            return Ok(());
        };
        if stream != threads::STREAM_PER_THREAD {
            return self.arena.record_stream(block, stream);
        }
        if self.arena.stream_of(block) == threads::own_stream() {
            return Ok(());
        }
        self.arena.record_stream(block, threads::use_by_this_thread())
    }

    /// Frees the memory, like dropping the allocation.
    pub fn free(self) {}
}

impl Drop for Allocation {
    #[inline]
    fn drop(&mut self) {
        let Some(block) = self.block else { return };
        let PoolObserver { history, hooks, process } = self.arena.observer();
        if !process.is_this() {
            return;
        }
        let stack = history.capture(When::Free);
        if is_told_to_nobody(hooks, self.at_malloc) {
            return self.arena.free(block, stack);
        }
        let event = Free {
            device_id: self.arena.device_id(),
            mem_size: self.size,
            mem_ptr: self.address,
            pmem_id: self.id,
        };
        around_free(hooks, self.at_malloc, &event, || self.arena.free(block, stack));
    }
}

impl std::fmt::Debug for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Allocation")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("size", &self.size())
            .field("requested_size", &self.requested_size())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
