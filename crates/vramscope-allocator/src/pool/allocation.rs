//! Memory in use.

use std::sync::Arc;

use vramscope_engine::{Arena, BlockKey, DeviceError, Grant};

use super::pool_observer::PoolObserver;
use crate::history::When;
use crate::hooks::{Free, HooksAtMalloc, around_free, is_told_to_nobody};
use crate::threads;

/// Memory from a pool. It goes back to the pool when this is dropped, on whichever thread.
///
/// It stays valid when the pool itself is gone: its segment goes back to the device together with the last allocation on the
/// same stream. An allocation of no bytes has the address 0, and nothing goes back when it is dropped.
#[must_use = "the memory goes back to the pool when this is dropped"]
pub struct Allocation {
    arena: Arc<Arena<PoolObserver>>,
    /// `None` for an allocation of no bytes.
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

    /// The device address; 0 for no bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The address as a pointer. It may be followed only where the device's memory is the host's.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address() as usize)
    }

    /// Bytes that were asked for.
    pub fn requested_size(&self) -> u64 {
        self.requested
    }

    /// Bytes of the block, at least as many as were asked for.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The allocation's id: no other in this process has it, now or later. Hooks know it as `pmem_id`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The device it is on.
    pub fn device_id(&self) -> i32 {
        self.arena.device_id()
    }

    /// The raw stream it was allocated on, as it was given.
    pub fn stream(&self) -> u64 {
        let stream = self.arena.key().stream;
        if threads::is_own_stream(stream) { threads::STREAM_PER_THREAD } else { stream }
    }

    /// Says that work on another stream uses the memory too. When it is freed, it is not handed out again
    /// before that stream has done what was asked of it until then (`Tensor.record_stream`, PyTorch).
    ///
    /// # Errors
    /// Where the device could not wait for that stream.
    pub fn record_stream(&self, stream: u64) -> Result<(), DeviceError> {
        let Some(block) = self.block.filter(|_| self.arena.observer().process.is_this()) else {
            return Ok(());
        };
        if stream != threads::STREAM_PER_THREAD {
            return self.arena.record_stream(block, stream);
        }
        if self.arena.key().stream == threads::own_stream() {
            return Ok(());
        }
        self.arena.record_stream(block, threads::use_by_this_thread())
    }

    /// Gives the memory back; the same as dropping it.
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
