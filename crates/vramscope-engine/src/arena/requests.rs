//! Allocating and freeing blocks.

use vramscope_trace::Action;

use crate::arena::block::{Block, BlockKey, BlockState};
use crate::arena::{Grant, LockedArena, SEQUENCE_BITS};
use crate::observer::{DeviceEvent, Observer};
use crate::policy::Class;

impl<O: Observer> LockedArena<'_, O> {
    /// Returns the best free block for a request of `rounded` bytes, and the number of its bytes to allocate (`get_free_block`). The
    /// block stays free until [`commit`](Self::commit) or [`hold`](Self::hold).
    #[inline]
    pub(crate) fn find(&self, class: Class, rounded: u64) -> Option<(BlockKey, u64)> {
        let policy = self.arena.core().policy();
        let free = &self.state.free[class as usize];
        let mut best = free.first_of(rounded)?;
        if policy.expandable_segments {
            // An expandable block counts with the size it can grow to, so a block with less room is a better fit.
            let mut others = free.from(rounded).skip(1);
            while let Some(next) = others.next()
                && self.size_with_room(next) < self.size_with_room(best)
            {
                best = next;
            }
        }
        let size = self.block(best).size;
        policy.may_serve(rounded, size).then(|| (best, self.size_handed_out(class, rounded, size)))
    }

    /// Returns the bytes of a free block plus the unmapped block after it.
    fn size_with_room(&self, key: BlockKey) -> u64 {
        let block = self.block(key);
        let after = block.next.map(|next| self.block(next)).filter(|next| next.state == BlockState::Unmapped);
        block.size + after.map_or(0, |next| next.size)
    }

    /// Returns the bytes to allocate from a block of `size` bytes: `rounded` if the rest is split off, otherwise `size`.
    fn size_handed_out(&self, class: Class, rounded: u64, size: u64) -> u64 {
        let split =
            !self.arena.no_split && self.arena.core().policy().should_split(class, rounded, size - rounded);
        if split { rounded } else { size }
    }

    /// Removes a free block from the cache for a request in progress.
    pub(crate) fn hold(&mut self, key: BlockKey) {
        self.remove_free(key);
        self.block_mut(key).state = BlockState::Held;
    }

    /// Returns the bytes that [`commit`](Self::commit) should allocate from a held block.
    pub(crate) fn size_of_held(&self, class: Class, rounded: u64, key: BlockKey) -> u64 {
        self.size_handed_out(class, rounded, self.block(key).size)
    }

    /// Allocates the first `size` bytes of a free or held block and splits off the rest (`alloc_found_block`).
    #[inline(always)]
    pub(crate) fn commit(
        &mut self,
        key: BlockKey,
        size: u64,
        requested: u64,
        stack: Option<O::Stack>,
    ) -> Grant {
        let was_free = self.block(key).state == BlockState::Free;
        if was_free {
            self.remove_free(key);
        }
        if size < self.block(key).size {
            let rest = self.split(key, size);
            if was_free {
                self.insert_free(rest);
            } else {
                // The next block may have become free while this one was held.
                self.join_and_insert(rest);
            }
        }
        let id = self.next_id();
        let block = self.block_mut(key);
        block.state = BlockState::Allocated;
        block.requested = requested;
        block.stack = stack;
        let grant = Grant { block: key, address: block.address, size, requested, id };
        self.state.tally.allocate(requested, size);
        self.record(Action::Alloc, key, stack);
        grant
    }

    /// Allocates a free block, if there is one and it raises no peak.
    #[inline(always)]
    pub(crate) fn commit_cached(
        &mut self,
        class: Class,
        rounded: u64,
        requested: u64,
        stack: Option<O::Stack>,
    ) -> Option<Grant> {
        let (block, size) = self.find(class, rounded)?;
        self.tally().has_room(requested, size).then(|| self.commit(block, size, requested, stack))
    }

    /// Returns a new allocation id.
    pub(super) fn next_id(&mut self) -> u64 {
        self.state.next_id += 1;
        self.arena.ordinal << SEQUENCE_BITS | self.state.next_id
    }

    /// Returns a held block to the cache.
    pub(crate) fn unhold(&mut self, key: BlockKey) {
        if self.streams().is_some() {
            self.end_use(key);
        }
        self.join_and_insert(key);
    }

    /// Frees a block for its owner. If no other stream uses it, it becomes free at once. Otherwise returns these streams, and the
    /// caller must call [`stream_done`](Self::stream_done) once for each.
    #[inline]
    pub(super) fn free(&mut self, key: BlockKey, stack: Option<O::Stack>) -> Vec<u64> {
        let streams = if std::mem::take(&mut self.block_mut(key).shared) {
            self.state.streams.remove(&key).unwrap_or_default()
        } else {
            Vec::new()
        };
        let stack = self.request_free(key, streams.len() as u32, stack);
        if streams.is_empty() {
            self.complete(key, stack);
        }
        streams
    }

    /// Frees a block for its owner while it waits for `events` events. Returns the stack to record with later events: `stack`, or else
    /// the stack of the allocation.
    #[inline]
    pub(super) fn request_free(
        &mut self,
        key: BlockKey,
        events: u32,
        stack: Option<O::Stack>,
    ) -> Option<O::Stack> {
        let block = self.block_mut(key);
        debug_assert_eq!(block.state, BlockState::Allocated);
        let (class, size, stack) = (block.class, block.size, stack.or(block.stack));
        block.state = BlockState::PendingFree;
        block.events = events;
        if self.is_planned() {
            self.begin_planned_free(key);
        }
        self.state.tally.free_requested(class, size);
        self.record(Action::FreeRequested, key, stack);
        stack
    }

    /// Records that one of the streams that used a freed block is done. The block becomes free after the last stream.
    pub(super) fn stream_done(&mut self, key: BlockKey, stack: Option<O::Stack>) {
        let block = self.block_mut(key);
        block.events -= 1;
        if block.events == 0 {
            let stack = stack.or(block.stack);
            self.complete(key, stack);
        }
    }

    /// Makes a freed block available again (`free_block`).
    #[inline]
    fn complete(&mut self, key: BlockKey, stack: Option<O::Stack>) {
        let block = self.block_mut(key);
        let (class, size, requested) = (block.class, block.size, block.requested);
        block.stack = None;
        self.state.tally.free_completed(class, requested, size);
        self.record(Action::FreeCompleted, key, stack);
        if self.is_planned() {
            self.end_planned_free(key);
        } else {
            self.join_and_insert(key);
        }
    }

    /// Marks a block that was in use before the engine began: still allocated, or, if `pending`, freed by its owner and waiting for
    /// another stream.
    pub(crate) fn use_installed(&mut self, key: BlockKey, requested: u64, pending: bool) {
        let block = self.block_mut(key);
        block.state = if pending { BlockState::PendingFree } else { BlockState::Allocated };
        block.requested = requested;
        block.events = u32::from(pending);
        let size = block.size;
        if pending {
            self.tally().start_pending(requested, size);
        } else {
            self.tally().allocate(requested, size);
        }
    }

    /// Reports a block event to the observer, if it is recording.
    #[inline]
    fn record(&self, action: Action, key: BlockKey, stack: Option<O::Stack>) {
        if self.arena.core().observer().is_recording() {
            self.record_block(action, key, stack);
        }
    }

    #[inline(never)]
    fn record_block(&self, action: Action, key: BlockKey, stack: Option<O::Stack>) {
        let Block { class, address, size, requested, .. } = *self.block(key);
        let event =
            DeviceEvent { action, class, address_or_free: address, size: requested, block_size: size, stack };
        let number = if self.is_planned() { self.number_of(key) } else { self.arena.number };
        self.arena.core().observer().record(number, event);
    }
}
