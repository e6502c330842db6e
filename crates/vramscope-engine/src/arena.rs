//! The memory of one pool on one stream: segments and their blocks.
//!
//! ```text
//!   segment  |=======================================================|
//!   blocks   | allocated |  free  | allocated |        free          |
//!                          <- requests take the front of a free block, the rest stays free
//! ```
//!
//! The blocks of a segment form a list in address order without gaps. Two neighbors are never both free. The leftmost block keeps its
//! key when blocks are split or merged, so the key of a segment's first block never changes.

mod block;
mod blocks;
mod expandable;
mod free_blocks;
mod place;
mod planned;
mod requests;
mod segments;
mod shared;
mod unmapped;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope_basics::lock;

pub use block::BlockKey;
pub use place::{NotPlaced, PlannedPlace, StreamUse};
use planned::PlannedBlocks;

use crate::arena_key::{ArenaKey, PLANNED};
use crate::core::Core;
use crate::device::{DeviceError, guarded};
use crate::layout::{BlockLayout, SegmentLayout};
use crate::observer::Observer;
use crate::pending::Pending;
use crate::statistics::Tally;
use block::{Block, BlockState, Segment};
use free_blocks::FreeBlocks;
use unmapped::UnmappedBlocks;

/// The memory of one pool on one stream. It lives as long as its engine or an allocated block refers to it.
pub struct Arena<O: Observer> {
    shared: Arc<EngineShared<O>>,
    key: ArenaKey,
    /// The observer's number for this arena.
    number: u32,
    /// The arena's number in the whole process: the upper bits of its allocation ids.
    ordinal: u64,
    /// Whether blocks are never split (`MemPool(no_split=True)`, PyTorch 2.9).
    no_split: bool,
    /// Number of the thread that last allocated here, as given to [`Arena::adopt`]; 0 before the first call.
    user: AtomicU64,
    state: Mutex<ArenaState<O::Stack>>,
}

/// Shared state of an engine and its arenas.
pub(crate) struct EngineShared<O: Observer> {
    core: Core<O>,
    /// Freed blocks that other streams still use.
    pending: Pending<WaitingBlock<O>>,
    captures: Captures<O>,
}

/// Captures of CUDA graphs in progress. Until the last one ends, the device must record, query and await no event.
struct Captures<O: Observer> {
    count: AtomicUsize,
    /// Freed blocks whose events are recorded after the captures, with the streams that use them.
    deferred: Mutex<Vec<(WaitingBlock<O>, Vec<u64>)>>,
}

impl<O: Observer> Captures<O> {
    #[inline]
    fn are_underway(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// A freed block that other streams still use.
struct WaitingBlock<O: Observer> {
    arena: Arc<Arena<O>>,
    block: BlockKey,
}

impl<O: Observer> WaitingBlock<O> {
    /// Records that one of the streams has completed the work that used the block.
    fn stream_done(self, stack: Option<O::Stack>) {
        self.arena.lock_as_is().stream_done(self.block, stack);
    }
}

/// An allocated block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Key of the block in its arena.
    pub block: BlockKey,
    /// Address of the block's first byte on the device.
    pub address: u64,
    /// Size of the block in bytes.
    pub size: u64,
    /// Requested bytes.
    pub requested: u64,
    /// Allocation id, unique in this process.
    pub id: u64,
}

/// Number of low bits of an allocation id that count allocations within an arena; the arena's ordinal is above them. They last 12 days
/// at a million allocations a second. After that, ids overlap with the arena of the next ordinal.
const SEQUENCE_BITS: u32 = 40;

/// State protected by the arena's lock.
struct ArenaState<Stack> {
    /// All blocks, indexed by key.
    blocks: Vec<Block<Stack>>,
    /// Unused keys.
    vacant_blocks: Vec<BlockKey>,
    segments: Vec<Segment<Stack>>,
    /// Unused indexes of `segments`.
    vacant_segments: Vec<u32>,
    /// Free blocks by class.
    free: [FreeBlocks; 2],
    /// Unmapped blocks of expandable segments by class.
    unmapped: [UnmappedBlocks; 2],
    /// The other streams that use a block (`stream_uses` in PyTorch).
    streams: BTreeMap<BlockKey, Vec<u64>>,
    tally: Tally,
    /// Number of allocations so far.
    next_id: u64,
    /// Number of blocks that became free so far; only counted if the search order needs it.
    frees: u64,
    /// In an arena of planned requests: what finds its blocks.
    planned: Option<Box<PlannedBlocks>>,
}

impl<Stack> Default for ArenaState<Stack> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            vacant_blocks: Vec::new(),
            segments: Vec::new(),
            vacant_segments: Vec::new(),
            free: Default::default(),
            unmapped: Default::default(),
            streams: BTreeMap::new(),
            tally: Tally::default(),
            next_id: 0,
            frees: 0,
            planned: None,
        }
    }
}

impl<O: Observer> EngineShared<O> {
    pub(crate) fn new(core: Core<O>) -> Self {
        let captures = Captures { count: AtomicUsize::new(0), deferred: Mutex::default() };
        Self { core, pending: Pending::default(), captures }
    }

    /// Records that the capture of a CUDA graph began.
    pub(crate) fn begin_capture(&self) {
        self.captures.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a capture ended. After the last one, records the events of blocks that were freed meanwhile.
    pub(crate) fn end_capture(&self) {
        let end = |count: usize| count.checked_sub(1);
        let before = self.captures.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end);
        if before == Ok(1) {
            let deferred = std::mem::take(&mut *lock(&self.captures.deferred));
            for (WaitingBlock { arena, block }, streams) in deferred {
                arena.wait_for(block, streams);
            }
        }
    }

    /// Whether a capture of a CUDA graph is in progress.
    pub(crate) fn is_capturing(&self) -> bool {
        self.captures.are_underway()
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core<O> {
        &self.core
    }

    /// Whether no block waits for a stream.
    #[inline]
    pub(crate) fn nothing_waits(&self) -> bool {
        self.pending.is_empty()
    }

    /// Frees the blocks whose events are complete. Queries the oldest event of each stream first (`process_events`). With `wait`, waits
    /// for all events (`synchronize_and_free_events`).
    #[cold]
    pub(crate) fn process_pending(&self, wait: bool) {
        if self.captures.are_underway() {
            return;
        }
        if wait {
            self.pending.take_all_numbered().into_iter().for_each(|waiting| waiting.stream_done(None));
        }
        let done = self.pending.take_reached(self.core.device(), wait);
        if !done.is_empty() {
            let stack = self.core.observer().capture_free();
            done.into_iter().for_each(|waiting| waiting.stream_done(stack));
        }
    }

    /// Waits for all events, and for each event recorded later, because no later request will query them.
    pub(crate) fn close(&self) {
        self.pending.close();
        self.process_pending(true);
    }
}

impl<O: Observer> Arena<O> {
    pub(crate) fn new(shared: Arc<EngineShared<O>>, key: ArenaKey, no_split: bool) -> Self {
        static ORDINALS: AtomicU64 = AtomicU64::new(0);
        let number = shared.core.observer().add_arena(key);
        let ordinal = ORDINALS.fetch_add(1, Ordering::Relaxed);
        let user = AtomicU64::new(0);
        let planned = (key.pool == PLANNED).then(Box::default);
        let state = Mutex::new(ArenaState { planned, ..ArenaState::default() });
        Self { shared, key, number, ordinal, no_split, user, state }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core<O> {
        &self.shared.core
    }

    /// Returns the pool and stream of this arena.
    pub fn key(&self) -> ArenaKey {
        self.key
    }

    /// Returns the observer's number for this arena.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the device's number.
    pub fn device_id(&self) -> i32 {
        self.core().device_id()
    }

    /// Returns the observer of the engine.
    #[inline]
    pub fn observer(&self) -> &O {
        self.core().observer()
    }

    /// Locks the arena. All its free memory is in the free blocks.
    pub(crate) fn lock(&self) -> LockedArena<'_, O> {
        let mut locked = self.lock_as_is();
        locked.merge_ready();
        locked
    }

    /// Locks the arena for work that needs none of its free blocks.
    #[inline]
    pub(crate) fn lock_as_is(&self) -> LockedArena<'_, O> {
        LockedArena { arena: self, state: lock(&self.state) }
    }

    /// Returns a new allocation id for an allocation of zero bytes, which has no block.
    pub fn next_id(&self) -> u64 {
        self.lock_as_is().next_id()
    }

    /// Transfers the memory to `user`, a thread's number starting at 1. If another user had it, waits for all work on the device,
    /// because nothing orders the work of the two users.
    pub fn adopt(&self, user: u64) {
        let before = self.user.swap(user, Ordering::Relaxed);
        if before != 0 && before != user {
            // Ignore errors: failed work does not use the memory any more.
            guarded(|| self.core().device().synchronize_device()).ok();
        }
    }

    /// Frees a block. It becomes free at once, or after the other streams that use it have completed their work.
    #[inline]
    pub fn free(self: &Arc<Self>, block: BlockKey, stack: Option<O::Stack>) {
        let streams = self.lock_as_is().free(block, stack);
        if !streams.is_empty() {
            self.wait_for(block, streams);
        }
    }

    /// Makes a block wait for `streams`, with an event recorded on each (`insert_events`). If a stream cannot record an event, for
    /// example another thread's per-thread stream, waits for all work on the device.
    #[cold]
    fn wait_for(self: &Arc<Self>, block: BlockKey, streams: Vec<u64>) {
        {
            // Under this lock, the last capture cannot end between the check and the push.
            let mut deferred = lock(&self.shared.captures.deferred);
            if self.shared.captures.are_underway() {
                deferred.push((WaitingBlock { arena: Arc::clone(self), block }, streams));
                return;
            }
        }
        let device = self.core().device();
        for stream in streams {
            let mark = |stream| guarded(|| device.record_event(stream)).ok();
            let waiting = WaitingBlock { arena: Arc::clone(self), block };
            match self.observer().device_stream(stream).and_then(mark) {
                Some(event) => self.shared.pending.add(stream, event, waiting),
                None => {
                    guarded(|| device.synchronize_device()).ok();
                    waiting.stream_done(None);
                }
            }
        }
        if self.shared.pending.is_closed() {
            self.shared.process_pending(true);
        }
    }

    /// Frees a block that other streams still use. Returns the number to pass to [`free_completed`](Self::free_completed) when these
    /// streams are done.
    pub(crate) fn free_requested(self: &Arc<Self>, block: BlockKey) -> u64 {
        self.lock_as_is().request_free(block, 1, None);
        self.wait_for_completion(block)
    }

    /// Makes a block wait until [`free_completed`](Self::free_completed) is called with the returned number, or until the engine waits
    /// for all streams.
    pub(crate) fn wait_for_completion(self: &Arc<Self>, block: BlockKey) -> u64 {
        self.shared.pending.add_numbered(WaitingBlock { arena: Arc::clone(self), block })
    }

    /// Completes the free of the block that waits under `number`. Does nothing if no block waits under it.
    pub(crate) fn free_completed(&self, number: u64) {
        if let Some(waiting) = self.shared.pending.take_numbered(number) {
            waiting.stream_done(None);
        }
    }

    /// Returns the stream of an allocated block. It is that of [`key`](Self::key), unless streams share the segment of a plan.
    #[inline]
    pub fn stream_of(&self, block: BlockKey) -> u64 {
        if self.key.pool == PLANNED { self.lock_as_is().stream_of(block) } else { self.key.stream }
    }

    /// Records that `stream` also uses the block (`record_stream`).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the stream is unknown to the device, which then cannot wait for it.
    pub fn record_stream(&self, block: BlockKey, stream: u64) -> Result<(), DeviceError> {
        if self.stream_of(block) == stream {
            return Ok(());
        }
        if let Some(handle) = self.observer().device_stream(stream)
            && !self.core().device().knows_stream(handle)
        {
            return Err(DeviceError::Unsupported(format!(
                "stream {handle:#x} does not belong to this device; register it with the device first"
            )));
        }
        self.lock_as_is().record_stream(block, stream);
        Ok(())
    }
}

impl<O: Observer> Drop for Arena<O> {
    /// Releases all segments to the device: nothing refers to this memory any more.
    fn drop(&mut self) {
        if !self.observer().owns_memory() {
            return;
        }
        let mut locked = self.lock();
        for segment in 0..locked.state.segments.len() {
            locked.discard(segment as u32);
        }
    }
}

/// An arena with its lock held.
pub(crate) struct LockedArena<'a, O: Observer> {
    arena: &'a Arena<O>,
    state: MutexGuard<'a, ArenaState<O::Stack>>,
}

impl<O: Observer> LockedArena<'_, O> {
    /// Whether this locks `arena`.
    pub(crate) fn is_of(&self, arena: &Arena<O>) -> bool {
        std::ptr::eq(self.arena, arena)
    }

    /// Records that another stream uses a block.
    fn record_stream(&mut self, block: BlockKey, stream: u64) {
        self.block_mut(block).shared = true;
        let streams = self.state.streams.entry(block).or_default();
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }

    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.state.tally
    }

    pub(crate) fn num_free_blocks(&self) -> usize {
        self.state.free.iter().map(FreeBlocks::len).sum()
    }

    /// Returns the bytes of free blocks in partially used segments (`inactive_split_bytes` in PyTorch).
    pub(crate) fn inactive_split_bytes(&self) -> u64 {
        let free = self.state.free.iter().flat_map(FreeBlocks::iter).map(|key| self.block(key));
        free.filter(|block| block.prev.is_some() || block.next.is_some()).map(|block| block.size).sum()
    }

    /// Returns the address of a block's first byte.
    pub(crate) fn address_of(&self, key: BlockKey) -> u64 {
        self.block(key).address
    }

    #[inline]
    fn block(&self, key: BlockKey) -> &Block<O::Stack> {
        &self.state.blocks[key.index()]
    }

    #[inline]
    fn block_mut(&mut self, key: BlockKey) -> &mut Block<O::Stack> {
        &mut self.state.blocks[key.index()]
    }

    #[inline]
    fn segment_of(&self, key: BlockKey) -> &Segment<O::Stack> {
        self.segment(self.block(key).segment)
    }

    #[inline]
    fn segment(&self, segment: u32) -> &Segment<O::Stack> {
        &self.state.segments[segment as usize]
    }

    /// Returns the arena's segments with their blocks. An expandable segment yields one entry for each run of mapped addresses. A held
    /// block counts as free and is merged with its free neighbors.
    pub(crate) fn segments(&self) -> Vec<SegmentLayout<O::Stack>> {
        let mut found = Vec::new();
        for segment in &self.state.segments {
            let mut run = Vec::new();
            for (_, block) in self.blocks_from(segment.first) {
                if block.state == BlockState::Unmapped {
                    found.extend(self.layout(segment, std::mem::take(&mut run)));
                    continue;
                }
                let block = block.layout();
                match run.last_mut() {
                    Some(last) if !last.state.is_active() && !block.state.is_active() => {
                        last.size += block.size;
                    }
                    _ => run.push(block),
                }
            }
            found.extend(self.layout(segment, run));
        }
        found
    }

    /// Layout of one run of mapped addresses of a segment, or `None` if the run has no blocks.
    fn layout(
        &self,
        segment: &Segment<O::Stack>,
        blocks: Vec<BlockLayout<O::Stack>>,
    ) -> Option<SegmentLayout<O::Stack>> {
        let &Segment { class, expandable, stack, .. } = segment;
        (!blocks.is_empty()).then_some(SegmentLayout {
            arena: self.arena.key,
            class,
            expandable,
            stack,
            blocks,
        })
    }

    /// Returns a block and all later blocks of its segment, with their keys.
    fn blocks_from(&self, first: Option<BlockKey>) -> impl Iterator<Item = (BlockKey, &Block<O::Stack>)> {
        std::iter::successors(first, |&k| self.block(k).next).map(|k| (k, self.block(k)))
    }
}
