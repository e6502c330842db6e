//! The memory of one pool on one stream: segments, and the blocks they are divided into.
//!
//! ```text
//!   segment  |=======================================================|
//!   blocks   | allocated |  free  | allocated |        free          |
//!                          <- the front of a free block is handed out, the rest stays
//! ```
//!
//! Blocks of a segment are a list in address order without gaps; two neighbours are never both free. The
//! leftmost block keeps its key when blocks are split or join, so a segment knows its first block for good.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope_trace::Action;

use super::core::Core;
use super::free_blocks::{FreeBlocks, SearchKey};
use super::statistics::Tally;
use super::unmapped::UnmappedBlocks;
use super::{ArenaKey, Grant};
use crate::device::{DeviceError, guarded};
use crate::history::{ArenaTag, Happening, StackKey};
use crate::policy::{Class, SearchOrder};
use crate::sync::lock;
use crate::threads;

/// A block in its arena; never that of another block while the block lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockKey(NonZeroU32);

impl BlockKey {
    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index + 1).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
    }

    #[inline]
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The memory of one pool on one stream.
pub(crate) struct Arena {
    pub(crate) core: Arc<Core>,
    pub(crate) key: ArenaKey,
    /// Names the arena in the recorded history.
    pub(crate) tag: ArenaTag,
    /// Its blocks are handed out whole (`MemPool(no_split=True)`, PyTorch 2.9).
    pub(crate) no_split: bool,
    /// Of a thread's own stream, the thread that used it last by its number; 0 before.
    owner: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    blocks: Vec<Block>,
    vacant_blocks: Vec<BlockKey>,
    segments: Vec<Option<Segment>>,
    vacant_segments: Vec<u32>,
    /// Free blocks by class.
    free: [FreeBlocks; 2],
    /// Unmapped blocks of expandable segments by class.
    pub(super) unmapped: [UnmappedBlocks; 2],
    /// Other streams that use a block.
    streams: BTreeMap<BlockKey, Vec<u64>>,
    tally: Tally,
    next_id: u64,
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// What its present or last user asked for.
    pub(crate) requested: u64,
    /// Searches there had been when it became free.
    searches: u64,
    pub(crate) stack: Option<StackKey>,
    pub(super) prev: Option<BlockKey>,
    pub(super) next: Option<BlockKey>,
    pub(super) segment: u32,
    /// Marks in other streams that are not yet reached.
    pub(super) events: u32,
    pub(crate) state: BlockState,
    pub(super) class: Class,
    /// Other streams use it: `State::streams` says which.
    shared: bool,
    /// An unmapped block may lie beside it; of an unmapped block, its reach is to be measured again.
    pub(super) beside_unmapped: bool,
}

impl Block {
    /// Somebody has it.
    pub(super) fn is_allocated(&self) -> bool {
        self.state == BlockState::Allocated
    }

    /// Somebody has it, or still waits for it.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.state, BlockState::Allocated | BlockState::PendingFree)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    Free,
    /// Addresses of an expandable segment without memory.
    Unmapped,
    /// Taken out of the free blocks for a request that is under way.
    Held,
    Allocated,
    /// Freed; other streams still use it.
    PendingFree,
    /// No block: the key waits for one.
    Vacant,
}

/// A segment and its blocks at one moment; of an expandable segment, a run of mapped addresses.
pub(crate) struct SegmentState {
    pub(crate) arena: ArenaKey,
    pub(crate) segment: Segment,
    pub(crate) blocks: Vec<Block>,
}

impl SegmentState {
    /// First byte.
    pub(crate) fn address(&self) -> u64 {
        self.blocks.first().map_or(self.segment.address, |b| b.address)
    }

    /// Bytes, of all blocks.
    pub(crate) fn size(&self) -> u64 {
        self.blocks.iter().map(|b| b.size).sum()
    }
}

/// Memory taken from the device, or a reserved range that memory is mapped into.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) class: Class,
    pub(crate) expandable: bool,
    pub(crate) stack: Option<StackKey>,
    age: u64,
    first: BlockKey,
}

impl Arena {
    pub(crate) fn new(core: Arc<Core>, key: ArenaKey, no_split: bool) -> Self {
        let tag = core.history.arena(key);
        Self { core, key, tag, no_split, owner: AtomicU64::new(0), state: Mutex::default() }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { arena: self, state: lock(&self.state) }
    }

    /// The calling thread takes over the memory of a thread's own stream. Where that was another thread's, which has
    /// ended, its work is waited for: the two streams know nothing of each other.
    pub(crate) fn adopt(&self) {
        let thread = threads::this_thread().get();
        let before = self.owner.swap(thread, Ordering::Relaxed);
        if before != 0 && before != thread {
            // Work that failed is over too.
            guarded(|| self.core.device.synchronize_device()).ok();
        }
    }

    /// Ends the use of a block: it is free again at once, or when the other streams that use it get there.
    #[inline]
    pub(crate) fn free(self: &Arc<Self>, block: BlockKey, stack: Option<StackKey>) {
        let streams = self.lock().free(block, stack);
        if !streams.is_empty() {
            self.core.pending.add(self, block, streams);
        }
    }

    /// Ends the use of a block that others still use. Returns the number that
    /// [`Pending::complete`](super::pending::Pending::complete) wants when they are done.
    pub(crate) fn free_requested(self: &Arc<Self>, block: BlockKey) -> u64 {
        self.lock().request_free(block, 1, None);
        self.core.pending.add_told(self, block)
    }

    /// Says that `stream` uses the block too (`record_stream`).
    ///
    /// # Errors
    /// Where the device could not wait for that stream.
    pub(crate) fn record_stream(&self, block: BlockKey, stream: u64) -> Result<(), DeviceError> {
        let is_per_thread = stream == threads::STREAM_PER_THREAD;
        if self.key.stream == if is_per_thread { threads::own_stream() } else { stream } {
            return Ok(());
        }
        if !self.core.device.knows_stream(stream) {
            return Err(DeviceError::Unsupported(format!(
                "stream {stream:#x} is not one of this device's; tell it of the stream first"
            )));
        }
        let stream = if is_per_thread { threads::use_by_this_thread() } else { stream };
        let mut locked = self.lock();
        locked.block_mut(block).shared = true;
        let streams = locked.state.streams.entry(block).or_default();
        if !streams.contains(&stream) {
            streams.push(stream);
        }
        Ok(())
    }
}

impl Drop for Arena {
    /// Gives everything back: the last handle to this memory is gone.
    fn drop(&mut self) {
        if !self.core.process.is_this() {
            return;
        }
        let mut locked = self.lock();
        for segment in 0..locked.state.segments.len() {
            locked.discard(segment as u32);
        }
    }
}

/// An arena whose lock is held.
pub(crate) struct Locked<'a> {
    pub(crate) arena: &'a Arena,
    pub(super) state: MutexGuard<'a, State>,
}

impl Locked<'_> {
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.state.tally
    }

    pub(crate) fn num_free_blocks(&self) -> usize {
        self.state.free.iter().map(FreeBlocks::len).sum()
    }

    /// Bytes that [`release_cached`](Self::release_cached) would give back, of all classes.
    pub(crate) fn releasable_bytes(&self) -> u64 {
        let free = self.state.free.iter().flat_map(FreeBlocks::iter);
        let bytes = free.map(|key| {
            let block = self.block(key);
            if self.segment_of(key).expandable {
                let (start, end) = self.whole_pages(key);
                end.saturating_sub(start)
            } else if block.prev.is_none() && block.next.is_none() {
                block.size
            } else {
                0
            }
        });
        bytes.sum()
    }

    /// Bytes of free blocks in segments of which something is in use.
    pub(crate) fn inactive_split_bytes(&self) -> u64 {
        let free = self.state.free.iter().flat_map(FreeBlocks::iter).map(|key| self.block(key));
        free.filter(|block| block.prev.is_some() || block.next.is_some()).map(|block| block.size).sum()
    }

    #[inline]
    pub(crate) fn block(&self, key: BlockKey) -> &Block {
        &self.state.blocks[key.index()]
    }

    #[inline]
    pub(super) fn block_mut(&mut self, key: BlockKey) -> &mut Block {
        &mut self.state.blocks[key.index()]
    }

    pub(super) fn segment_of(&self, key: BlockKey) -> &Segment {
        self.segment(self.block(key).segment)
    }

    #[inline]
    fn segment(&self, segment: u32) -> &Segment {
        match &self.state.segments[segment as usize] {
            Some(segment) => segment,
            None => unreachable!("a block outlives its segment"),
        }
    }

    /// The arena's segments with their blocks. An expandable segment is one for each run of mapped addresses. A
    /// block held for a request under way is not yet handed out: it is one with the free ones beside it.
    pub(crate) fn segments(&self) -> Vec<SegmentState> {
        let mut found = Vec::new();
        for segment in self.state.segments.iter().flatten() {
            let all: Vec<Block> = self.blocks_from(Some(segment.first)).map(|(_, b)| *b).collect();
            for run in all.split(|b| b.state == BlockState::Unmapped).filter(|run| !run.is_empty()) {
                let mut blocks: Vec<Block> = Vec::with_capacity(run.len());
                for block in run {
                    match blocks.last_mut() {
                        Some(last) if !last.is_active() && !block.is_active() => last.size += block.size,
                        _ => blocks.push(*block),
                    }
                }
                found.push(SegmentState { arena: self.arena.key, segment: segment.clone(), blocks });
            }
        }
        found
    }

    pub(super) fn blocks_from(&self, first: Option<BlockKey>) -> impl Iterator<Item = (BlockKey, &Block)> {
        std::iter::successors(first, |&k| self.block(k).next).map(|k| (k, self.block(k)))
    }

    // ---- handing out ----

    /// The free block that serves a request of `rounded` bytes best, and the size of it that is handed out
    /// (`get_free_block`). It stays free until [`commit`](Self::commit) or [`hold`](Self::hold).
    #[inline]
    pub(crate) fn find(&self, class: Class, rounded: u64) -> Option<(BlockKey, u64)> {
        let policy = &self.arena.core.policy;
        let free = &self.state.free[class as usize];
        let mut best = free.first_of(rounded)?;
        if policy.expandable_segments {
            // An expandable block counts as what it can grow to, so one with less to grow is better.
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

    fn size_with_room(&self, key: BlockKey) -> u64 {
        let block = self.block(key);
        let after = block.next.map(|next| self.block(next)).filter(|next| next.state == BlockState::Unmapped);
        block.size + after.map_or(0, |next| next.size)
    }

    fn size_handed_out(&self, class: Class, rounded: u64, size: u64) -> u64 {
        let split =
            !self.arena.no_split && self.arena.core.policy.should_split(class, rounded, size - rounded);
        if split { rounded } else { size }
    }

    /// Takes a free block out of the cache.
    pub(crate) fn hold(&mut self, key: BlockKey) {
        self.remove_free(key);
        self.block_mut(key).state = BlockState::Held;
    }

    /// What [`commit`](Self::commit) would hand out of a held block.
    pub(crate) fn size_of_held(&self, class: Class, rounded: u64, key: BlockKey) -> u64 {
        self.size_handed_out(class, rounded, self.block(key).size)
    }

    /// Hands out the first `size` bytes of a free or held block; what remains is split off
    /// (`alloc_found_block`).
    #[inline(always)]
    pub(crate) fn commit(
        &mut self,
        key: BlockKey,
        size: u64,
        requested: u64,
        stack: Option<StackKey>,
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
                // The block behind may have become free while this one was held.
                self.join_and_insert(rest);
            }
        }
        let id = self.next_id();
        let block = self.block_mut(key);
        block.state = BlockState::Allocated;
        block.requested = requested;
        block.stack = stack;
        let grant = Grant { block: Some(key), address: block.address, size, requested, id };
        self.state.tally.allocate(requested, size);
        self.record(Action::Alloc, key, stack);
        grant
    }

    /// The id of one more allocation.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.state.next_id += 1;
        self.arena.tag.allocation_id(self.state.next_id)
    }

    /// Gives a held block back to the cache.
    pub(crate) fn let_go(&mut self, key: BlockKey) {
        self.join_and_insert(key);
    }

    // ---- taking back ----

    /// The owner gave the block back. It is free at once if no other stream uses it; else the streams are
    /// returned, and each must be answered with [`stream_done`](Self::stream_done).
    #[inline]
    fn free(&mut self, key: BlockKey, stack: Option<StackKey>) -> Vec<u64> {
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

    /// The owner gave the block back; `events` others still use it. Returns the stack for the record.
    #[inline]
    fn request_free(&mut self, key: BlockKey, events: u32, stack: Option<StackKey>) -> Option<StackKey> {
        let block = self.block_mut(key);
        debug_assert_eq!(block.state, BlockState::Allocated);
        let (class, size, stack) = (block.class, block.size, stack.or(block.stack));
        block.state = BlockState::PendingFree;
        block.events = events;
        self.state.tally.free_requested(class, size);
        self.record(Action::FreeRequested, key, stack);
        stack
    }

    /// One of the streams that used a freed block has got past it.
    pub(crate) fn stream_done(&mut self, key: BlockKey, stack: Option<StackKey>) {
        let block = self.block_mut(key);
        block.events -= 1;
        if block.events == 0 {
            let stack = stack.or(block.stack);
            self.complete(key, stack);
        }
    }

    /// The block is available again (`free_block`).
    #[inline]
    fn complete(&mut self, key: BlockKey, stack: Option<StackKey>) {
        let block = self.block_mut(key);
        let (class, size, requested) = (block.class, block.size, block.requested);
        block.stack = None;
        self.state.tally.free_completed(class, requested, size);
        self.record(Action::FreeCompleted, key, stack);
        self.join_and_insert(key);
    }

    /// Something happened to a block.
    #[inline]
    fn record(&self, action: Action, key: BlockKey, stack: Option<StackKey>) {
        if self.arena.core.history.is_recording() {
            self.record_block(action, key, stack);
        }
    }

    #[inline(never)]
    fn record_block(&self, action: Action, key: BlockKey, stack: Option<StackKey>) {
        let Block { class, address, size, requested, .. } = *self.block(key);
        let what = Happening { action, class, address, size: requested, block_size: size, stack };
        self.arena.core.history.record(self.arena.tag, what);
    }

    // ---- the list of blocks ----

    /// Makes a block free, joined with its free neighbours.
    #[inline]
    fn join_and_insert(&mut self, key: BlockKey) {
        let key = self.join(key, BlockState::Free);
        self.insert_free(key);
    }

    /// Joins a block, whose state becomes `state`, with those of its neighbours that are in that state, and
    /// takes them out of their set. Returns the block's new key.
    #[inline]
    pub(super) fn join(&mut self, key: BlockKey, state: BlockState) -> BlockKey {
        self.block_mut(key).state = state;
        let mut key = key;
        if let Some(prev) = self.block(key).prev.filter(|&prev| self.block(prev).state == state) {
            self.remove_from_set(prev);
            self.absorb_next(prev);
            key = prev;
        }
        if let Some(next) = self.block(key).next.filter(|&next| self.block(next).state == state) {
            self.remove_from_set(next);
            self.absorb_next(key);
        }
        key
    }

    /// Joins a block with the one behind it, whose key is free afterwards.
    #[inline]
    fn absorb_next(&mut self, key: BlockKey) {
        let Some(absorbed) = self.block(key).next else { return };
        let Block { size, next: after, beside_unmapped, .. } = *self.block(absorbed);
        let block = self.block_mut(key);
        block.size += size;
        block.beside_unmapped |= beside_unmapped;
        block.next = after;
        if let Some(after) = after {
            self.block_mut(after).prev = Some(key);
        }
        self.vacate(absorbed);
    }

    #[inline]
    pub(super) fn vacate(&mut self, key: BlockKey) {
        self.block_mut(key).state = BlockState::Vacant;
        self.state.vacant_blocks.push(key);
    }

    /// Cuts a block after `size` bytes. The front keeps the key; the rest, in the same state but in no set,
    /// is returned.
    #[inline]
    pub(super) fn split(&mut self, key: BlockKey, size: u64) -> BlockKey {
        let block = self.block_mut(key);
        let rest = Block {
            address: block.address + size,
            size: block.size - size,
            requested: 0,
            prev: Some(key),
            ..*block
        };
        let after = block.next;
        block.size = size;
        let rest = self.new_block(rest);
        self.block_mut(key).next = Some(rest);
        if let Some(after) = after {
            self.block_mut(after).prev = Some(rest);
        }
        rest
    }

    #[inline]
    fn new_block(&mut self, block: Block) -> BlockKey {
        match self.state.vacant_blocks.pop() {
            Some(key) => {
                self.state.blocks[key.index()] = block;
                key
            }
            None => {
                self.state.blocks.push(block);
                BlockKey::new(self.state.blocks.len() - 1)
            }
        }
    }

    #[inline]
    fn search_key(&self, block: &Block) -> SearchKey {
        let age = match self.arena.core.policy.search_order {
            SearchOrder::Address => 0,
            SearchOrder::SegmentAge => self.segment(block.segment).age,
        };
        (block.size, age, block.address)
    }

    #[inline]
    pub(super) fn insert_free(&mut self, key: BlockKey) {
        let block = self.block(key);
        let (class, search_key) = (block.class, self.search_key(block));
        let searches = self.arena.core.searches(self.arena.key, class);
        let block = self.block_mut(key);
        block.state = BlockState::Free;
        block.searches = searches;
        self.state.free[class as usize].insert(search_key, key);
        if self.block(key).beside_unmapped {
            self.tell_unmapped(key);
        }
    }

    #[inline]
    pub(super) fn remove_free(&mut self, key: BlockKey) {
        let block = self.block(key);
        let (class, search_key) = (block.class, self.search_key(block));
        self.state.free[class as usize].remove(search_key);
        if self.block(key).beside_unmapped {
            self.tell_unmapped(key);
        }
    }

    #[inline]
    pub(super) fn remove_from_set(&mut self, key: BlockKey) {
        match self.block(key).state {
            BlockState::Free => self.remove_free(key),
            BlockState::Unmapped => {
                let (address, class) = (self.block(key).address, self.block(key).class);
                self.state.unmapped[class as usize].remove(address);
            }
            _ => {}
        }
    }

    // ---- segments ----

    /// Takes a segment from the device and holds its only block.
    ///
    /// # Errors
    /// The device's; or out of memory where the limit allows no more.
    pub(crate) fn add_segment(
        &mut self,
        class: Class,
        size: u64,
        stack: Option<StackKey>,
    ) -> Result<BlockKey, DeviceError> {
        let (address, age) = self.arena.core.allocate(self.arena.tag, class, size, stack)?;
        Ok(self.push_segment(address, size, class, false, stack, age, BlockState::Held))
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a segment and of its first block")]
    pub(super) fn push_segment(
        &mut self,
        address: u64,
        size: u64,
        class: Class,
        expandable: bool,
        stack: Option<StackKey>,
        age: u64,
        state: BlockState,
    ) -> BlockKey {
        let vacant = self.state.vacant_segments.pop().map_or(self.state.segments.len(), |i| i as usize);
        let first = self.new_block(Block {
            address,
            size,
            requested: 0,
            state,
            stack: None,
            prev: None,
            next: None,
            segment: vacant as u32,
            searches: 0,
            events: 0,
            class,
            shared: false,
            beside_unmapped: false,
        });
        let segment = Some(Segment { address, size, class, expandable, stack, age, first });
        match self.state.segments.get_mut(vacant) {
            Some(slot) => *slot = segment,
            None => self.state.segments.push(segment),
        }
        first
    }

    /// Free blocks of a class that are whole segments of their own, oldest key first, with the number of
    /// searches since each became free.
    pub(crate) fn whole_segments(&self, class: Class) -> Vec<(BlockKey, u64)> {
        let searches = self.arena.core.searches(self.arena.key, class);
        self.state.free[class as usize]
            .iter()
            .filter(|&key| self.block(key).prev.is_none() && self.block(key).next.is_none())
            .map(|key| (key, searches.saturating_sub(self.block(key).searches)))
            .collect()
    }

    /// Gives the segment of a free block that fills it back to the device.
    ///
    /// # Errors
    /// Where the device refuses; the block then stays.
    pub(crate) fn release_segment(
        &mut self,
        key: BlockKey,
        stack: Option<StackKey>,
    ) -> Result<(), DeviceError> {
        let (index, segment) = (self.block(key).segment, self.segment_of(key));
        let (address, size, stack) = (segment.address, segment.size, stack.or(segment.stack));
        self.arena.core.free(self.arena.tag, segment.class, address, size, stack)?;
        self.remove_free(key);
        self.vacate(key);
        self.vacate_segment(index);
        Ok(())
    }

    pub(super) fn vacate_segment(&mut self, index: u32) {
        self.state.segments[index as usize] = None;
        self.state.vacant_segments.push(index);
    }

    /// The free block that `address` lies in.
    pub(crate) fn free_block_around(&self, address: u64) -> Option<BlockKey> {
        let free = self.state.free.iter().flat_map(FreeBlocks::iter);
        let holds = |b: &Block| b.address <= address && address - b.address < b.size;
        free.into_iter().find(|&key| holds(self.block(key)))
    }

    /// As [`release_segment`](Self::release_segment), if the block is still free and fills its segment.
    /// Returns the bytes given back.
    pub(crate) fn release_if_whole(
        &mut self,
        key: BlockKey,
        stack: Option<StackKey>,
    ) -> Result<u64, DeviceError> {
        let block = self.block(key);
        let whole = block.state == BlockState::Free && block.prev.is_none() && block.next.is_none();
        if !whole || self.segment_of(key).expandable {
            return Ok(0);
        }
        let size = block.size;
        self.release_segment(key, stack)?;
        Ok(size)
    }

    /// Gives back everything of a class that is cached and whole: unsplit segments, then whole free pages of
    /// expandable ones (`release_blocks`). Returns the first refusal of the device after trying all.
    pub(crate) fn release_cached(
        &mut self,
        class: Class,
        stack: Option<StackKey>,
    ) -> Result<(), DeviceError> {
        let mut outcome = Ok(());
        let free: Vec<BlockKey> = self.state.free[class as usize].iter().collect();
        for key in free {
            let released = if self.segment_of(key).expandable {
                self.unmap(key, stack)
            } else {
                self.release_if_whole(key, stack).map(drop)
            };
            outcome = outcome.and(released);
        }
        outcome
    }

    /// Gives back blocks that may not be split, enough for a request of `rounded` bytes
    /// (`release_available_cached_blocks`). Returns whether it was enough.
    pub(crate) fn release_oversize(
        &mut self,
        class: Class,
        rounded: u64,
        max_split: u64,
        stack: Option<StackKey>,
    ) -> Result<bool, DeviceError> {
        let need = rounded.max(max_split);
        let free = &self.state.free[class as usize];
        if let Some(key) = free.first_of(need)
            && self.release_if_whole(key, stack)? > 0
        {
            return Ok(true);
        }
        let free = &self.state.free[class as usize];
        let mut below: Vec<BlockKey> = free.iter().take_while(|&key| self.block(key).size < need).collect();
        let mut released = 0;
        while let Some(key) = below.pop() {
            let size = self.block(key).size;
            if released >= need || size < max_split {
                break;
            }
            released += self.release_if_whole(key, stack)?;
        }
        Ok(released >= need)
    }

    /// Gives a segment back whatever its blocks are doing.
    fn discard(&mut self, index: u32) {
        let Some(segment) = self.state.segments[index as usize].take() else { return };
        let core = &self.arena.core;
        if !segment.expandable {
            core.free(self.arena.tag, segment.class, segment.address, segment.size, segment.stack).ok();
            return;
        }
        let mut next = Some(segment.first);
        // Neighbouring mapped blocks are unmapped together: a page may be shared by two of them.
        while let Some(key) = next {
            let start = self.block(key).address;
            let mut end = start;
            while let Some(key) = next.filter(|&k| self.block(k).state != BlockState::Unmapped) {
                end += self.block(key).size;
                next = self.block(key).next;
            }
            if end > start {
                core.unmap(self.arena.tag, segment.class, start, end - start, segment.stack).ok();
            } else {
                next = self.block(key).next;
            }
        }
        core.release(segment.address, segment.size).ok();
    }
}
