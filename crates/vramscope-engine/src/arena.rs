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

mod block;
mod blocks;
mod expandable;
mod free_blocks;
mod requests;
mod segments;
mod unmapped;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope_basics::lock;

pub use block::BlockKey;

use crate::arena_key::ArenaKey;
use crate::core::Core;
use crate::device::{DeviceError, guarded};
use crate::layout::{BlockLayout, SegmentLayout};
use crate::observer::Observer;
use crate::pending::Pending;
use crate::statistics::Tally;
use block::{Block, BlockState, Segment};
use free_blocks::FreeBlocks;
use unmapped::UnmappedBlocks;

/// The memory of one pool on one stream. It lives as long as its engine, or a block in use, refers to it.
pub struct Arena<O: Observer> {
    shared: Arc<EngineShared<O>>,
    key: ArenaKey,
    /// The number by which the arena's events are reported to the observer.
    number: u32,
    /// The arena's number in the whole process: the upper bits of its allocations' ids.
    ordinal: u64,
    /// Whether its blocks are handed out whole (`MemPool(no_split=True)`, PyTorch 2.9).
    no_split: bool,
    /// The thread that allocated from it last, by the number given to [`Arena::adopt`]; 0 before the first.
    user: AtomicU64,
    state: Mutex<ArenaState<O::Stack>>,
}

/// What an engine and its arenas share.
pub(crate) struct EngineShared<O: Observer> {
    core: Core<O>,
    /// Freed blocks that other streams still use.
    pending: Pending<WaitingBlock<O>>,
}

/// A freed block that other streams still use.
struct WaitingBlock<O: Observer> {
    arena: Arc<Arena<O>>,
    block: BlockKey,
}

impl<O: Observer> WaitingBlock<O> {
    /// One of the streams has completed the work that used the block.
    fn stream_done(self, stack: Option<O::Stack>) {
        self.arena.lock().stream_done(self.block, stack);
    }
}

/// A block handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The key of the block in its arena.
    pub block: BlockKey,
    /// The block's first byte on the device.
    pub address: u64,
    /// The size of the block, in bytes.
    pub size: u64,
    /// Bytes that were asked for.
    pub requested: u64,
    /// The allocation's id: no other allocation in this process has it, before or after.
    pub id: u64,
}

/// Bits of an allocation id that count within its arena; the arena's ordinal is above them. They last for a million
/// allocations a second over 12 days. Beyond that, ids run into those of the arena with the next ordinal.
const SEQUENCE_BITS: u32 = 40;

/// What an arena's lock protects.
struct ArenaState<Stack> {
    /// Every block, by its key.
    blocks: Vec<Block<Stack>>,
    /// Keys that name no block now.
    vacant_blocks: Vec<BlockKey>,
    segments: Vec<Segment<Stack>>,
    /// Positions in `segments` that hold none now.
    vacant_segments: Vec<u32>,
    /// Free blocks, by class.
    free: [FreeBlocks; 2],
    /// Unmapped blocks of expandable segments, by class.
    unmapped: [UnmappedBlocks; 2],
    /// The other streams that use a block (`stream_uses` of PyTorch).
    streams: BTreeMap<BlockKey, Vec<u64>>,
    tally: Tally,
    /// Allocations made so far.
    next_id: u64,
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
        }
    }
}

impl<O: Observer> EngineShared<O> {
    pub(crate) fn new(core: Core<O>) -> Self {
        Self { core, pending: Pending::default() }
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

    /// Frees the blocks whose events have completed, asking for each stream's oldest event first (`process_events`); with
    /// `wait`, waits for every event (`synchronize_and_free_events`).
    #[cold]
    pub(crate) fn process_pending(&self, wait: bool) {
        if wait {
            self.pending.take_all_numbered().into_iter().for_each(|waiting| waiting.stream_done(None));
        }
        let done = self.pending.take_reached(self.core.device(), wait);
        if !done.is_empty() {
            let stack = self.core.observer().capture_free();
            done.into_iter().for_each(|waiting| waiting.stream_done(stack));
        }
    }

    /// Waits for every event, now and whenever one is recorded later: no later request will ask for it.
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
        Self { shared, key, number, ordinal, no_split, user, state: Mutex::default() }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core<O> {
        &self.shared.core
    }

    /// The pool and stream that it serves.
    pub fn key(&self) -> ArenaKey {
        self.key
    }

    /// The number by which its events are told to the observer.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The number of its device.
    pub fn device_id(&self) -> i32 {
        self.core().device_id()
    }

    /// The observer of the engine that it belongs to.
    #[inline]
    pub fn observer(&self) -> &O {
        self.core().observer()
    }

    #[inline]
    pub(crate) fn lock(&self) -> LockedArena<'_, O> {
        LockedArena { arena: self, state: lock(&self.state) }
    }

    /// A new allocation id, for an allocation of no bytes, which has no block.
    pub fn next_id(&self) -> u64 {
        self.lock().next_id()
    }

    /// From here on the memory belongs to `user`, a number from 1 (a thread's). Where another user had it before, this
    /// waits for all work on the device, because nothing orders the work of the two.
    pub fn adopt(&self, user: u64) {
        let before = self.user.swap(user, Ordering::Relaxed);
        if before != 0 && before != user {
            // A failure is ignored: work that failed no longer uses the memory either.
            guarded(|| self.core().device().synchronize_device()).ok();
        }
    }

    /// Ends the use of a block. It is free at once, or when the other streams that use it have completed their work.
    #[inline]
    pub fn free(self: &Arc<Self>, block: BlockKey, stack: Option<O::Stack>) {
        let streams = self.lock().free(block, stack);
        if !streams.is_empty() {
            self.wait_for(block, streams);
        }
    }

    /// Lets a block wait for `streams`, with an event recorded on each (`insert_events`). Where none can be recorded, as on
    /// another thread's own stream, this waits for all work on the device.
    #[cold]
    fn wait_for(self: &Arc<Self>, block: BlockKey, streams: Vec<u64>) {
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

    /// Ends its owner's use of a block that other streams still use. Returns the number to give to
    /// [`free_completed`](Self::free_completed) when they are done.
    pub(crate) fn free_requested(self: &Arc<Self>, block: BlockKey) -> u64 {
        self.lock().request_free(block, 1, None);
        self.wait_for_completion(block)
    }

    /// Lets a block wait until [`free_completed`](Self::free_completed) is called with the number returned, or until
    /// the engine waits for all streams.
    pub(crate) fn wait_for_completion(self: &Arc<Self>, block: BlockKey) -> u64 {
        self.shared.pending.add_numbered(WaitingBlock { arena: Arc::clone(self), block })
    }

    /// The other streams are done with the block that waits under `number`. Nothing happens where it no longer waits.
    pub(crate) fn free_completed(&self, number: u64) {
        if let Some(waiting) = self.shared.pending.take_numbered(number) {
            waiting.stream_done(None);
        }
    }

    /// Says that `stream` uses the block too (`record_stream`).
    ///
    /// # Errors
    /// Where the device could not wait for that stream.
    pub fn record_stream(&self, block: BlockKey, stream: u64) -> Result<(), DeviceError> {
        if self.key.stream == stream {
            return Ok(());
        }
        if let Some(handle) = self.observer().device_stream(stream)
            && !self.core().device().knows_stream(handle)
        {
            return Err(DeviceError::Unsupported(format!(
                "stream {handle:#x} is not one of this device's; tell it of the stream first"
            )));
        }
        self.lock().record_stream(block, stream);
        Ok(())
    }
}

impl<O: Observer> Drop for Arena<O> {
    /// Gives all segments back to the device: nothing refers to this memory any more.
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

/// An arena whose lock is held.
pub(crate) struct LockedArena<'a, O: Observer> {
    arena: &'a Arena<O>,
    state: MutexGuard<'a, ArenaState<O::Stack>>,
}

impl<O: Observer> LockedArena<'_, O> {
    /// Whether this is the lock of `arena`.
    pub(crate) fn is_of(&self, arena: &Arena<O>) -> bool {
        std::ptr::eq(self.arena, arena)
    }

    /// Notes that another stream uses a block.
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

    /// Bytes of free blocks in segments of which another part is in use (`inactive_split_bytes` of PyTorch).
    pub(crate) fn inactive_split_bytes(&self) -> u64 {
        let free = self.state.free.iter().flat_map(FreeBlocks::iter).map(|key| self.block(key));
        free.filter(|block| block.prev.is_some() || block.next.is_some()).map(|block| block.size).sum()
    }

    /// The first byte of a block.
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

    /// The arena's segments with their blocks. An expandable segment is listed once for each run of mapped addresses. A
    /// block held for a request under way counts as free, and is joined with its free neighbours.
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

    /// The layout of one run of mapped addresses of a segment; `None` where the run has no blocks.
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

    /// A block and those that follow it in its segment, with their keys.
    fn blocks_from(&self, first: Option<BlockKey>) -> impl Iterator<Item = (BlockKey, &Block<O::Stack>)> {
        std::iter::successors(first, |&k| self.block(k).next).map(|k| (k, self.block(k)))
    }
}
