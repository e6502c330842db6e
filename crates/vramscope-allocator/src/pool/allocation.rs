//! Memory in use.

use std::sync::Arc;

use crate::device::DeviceError;
use crate::engine::{Arena, Grant};
use crate::history::When;
use crate::hooks::{Free, Told, around_free, unobserved_free};
use crate::threads;

/// Memory from a pool. It goes back to the pool when this is dropped, on whichever thread.
///
/// It stays valid when the pool itself is gone: its segment goes back to the device with the last
/// allocation of its stream. An allocation of no bytes has the address 0 and never goes back.
#[must_use = "the memory goes back to the pool when this is dropped"]
pub struct Allocation {
    arena: Arc<Arena>,
    grant: Grant,
    told: Told,
}

impl Allocation {
    #[inline(always)]
    pub(super) fn new(arena: &Arc<Arena>, grant: Grant, told: Told) -> Self {
        Self { arena: Arc::clone(arena), grant, told }
    }

    pub(super) fn of_no_bytes(arena: &Arc<Arena>) -> Self {
        let id = arena.lock().next_id();
        Self { arena: Arc::clone(arena), grant: Grant { id, ..Grant::default() }, told: Told::Nobody }
    }

    /// The device address; 0 for no bytes.
    pub fn address(&self) -> u64 {
        self.grant.address
    }

    /// The address as a pointer. It may be followed only where the device's memory is the host's.
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address() as usize)
    }

    /// Bytes asked for.
    pub fn requested_size(&self) -> u64 {
        self.grant.requested
    }

    /// Bytes of the block, at least as many as were asked for.
    pub fn size(&self) -> u64 {
        self.grant.size
    }

    /// The allocation's id: no other in this process has it, now or later. Hooks know it as `pmem_id`.
    pub fn id(&self) -> u64 {
        self.grant.id
    }

    /// The device it is on.
    pub fn device_id(&self) -> i32 {
        self.arena.core.device_id
    }

    /// The raw stream it was allocated on, as it was given.
    pub fn stream(&self) -> u64 {
        let stream = self.arena.key.stream;
        if threads::is_own_stream(stream) { threads::STREAM_PER_THREAD } else { stream }
    }

    /// Says that work on another stream uses the memory too. When it is freed, it is not handed out again
    /// before that stream has done what was asked of it until then (`Tensor.record_stream`, PyTorch).
    ///
    /// # Errors
    /// Where the device could not wait for that stream.
    pub fn record_stream(&self, stream: u64) -> Result<(), DeviceError> {
        let block = self.grant.block.filter(|_| self.arena.core.process.is_this());
        block.map_or(Ok(()), |block| self.arena.record_stream(block, stream))
    }

    /// Gives the memory back; the same as dropping it.
    pub fn free(self) {}
}

impl Drop for Allocation {
    #[inline]
    fn drop(&mut self) {
        let Some(block) = self.grant.block else { return };
        let core = &self.arena.core;
        if !core.process.is_this() {
            return;
        }
        let stack = core.history.capture(When::Free);
        if unobserved_free(&core.hooks, self.told) {
            return self.arena.free(block, stack);
        }
        let event = Free {
            device_id: core.device_id,
            mem_size: self.grant.size,
            mem_ptr: self.grant.address,
            pmem_id: self.grant.id,
        };
        around_free(&core.hooks, self.told, &event, || self.arena.free(block, stack));
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
