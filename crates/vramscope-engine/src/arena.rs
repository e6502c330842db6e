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

mod blocks;
mod expandable;
mod requests;
mod segments;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope_basics::lock;

use crate::arena_key::ArenaKey;
use crate::block::{Block, BlockKey, BlockState, Segment};
use crate::core::Core;
use crate::device::{DeviceError, guarded};
use crate::free_blocks::FreeBlocks;
use crate::layout::{BlockLayout, SegmentLayout};
use crate::observer::Observer;
use crate::pending::Pending;
use crate::statistics::Tally;
use crate::unmapped::UnmappedBlocks;

/// The memory of one pool on one stream. It stays while an engine or a block needs it.
pub struct Arena<O: Observer> {
    shared: Arc<Shared<O>>,
    key: ArenaKey,
    /// Names the arena to the observer.
    number: u32,
    /// Number of the arena in the whole process, from which the ids of its allocations are made.
    ordinal: u64,
    /// Its blocks are handed out whole (`MemPool(no_split=True)`, PyTorch 2.9).
    no_split: bool,
    /// The user that used it last, see [`Arena::adopt`]; 0 before the first.
    user: AtomicU64,
    state: Mutex<State<O::Stack>>,
}

/// What the arenas of one device share.
pub(crate) struct Shared<O: Observer> {
    pub(crate) core: Core<O>,
    pending: Pending<WaitingBlock<O>>,
}

/// A block that waits for other streams.
struct WaitingBlock<O: Observer> {
    arena: Arc<Arena<O>>,
    block: BlockKey,
}

impl<O: Observer> WaitingBlock<O> {
    /// One of its streams has got past it.
    fn stream_done(self, stack: Option<O::Stack>) {
        self.arena.lock().stream_done(self.block, stack);
    }
}

/// A block handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Names it in its arena.
    pub block: BlockKey,
    /// First byte on the device.
    pub address: u64,
    /// Bytes of the block.
    pub size: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Of this allocation alone, in the whole process and for ever.
    pub id: u64,
}

/// Bits of an allocation id that count within its arena: a million a second for 12 days. Then come ids that
/// another arena may have had, if there are that many.
const SEQUENCE_BITS: u32 = 40;

pub(crate) struct State<Stack> {
    blocks: Vec<Block<Stack>>,
    vacant_blocks: Vec<BlockKey>,
    segments: Vec<Option<Segment<Stack>>>,
    vacant_segments: Vec<u32>,
    /// Free blocks by class.
    free: [FreeBlocks; 2],
    /// Unmapped blocks of expandable segments by class.
    unmapped: [UnmappedBlocks; 2],
    /// Other streams that use a block.
    streams: BTreeMap<BlockKey, Vec<u64>>,
    tally: Tally,
    next_id: u64,
}

impl<Stack> Default for State<Stack> {
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

impl<O: Observer> Shared<O> {
    pub(crate) fn new(core: Core<O>) -> Self {
        Self { core, pending: Pending::default() }
    }

    /// No block waits for a stream.
    #[inline]
    pub(crate) fn nothing_waits(&self) -> bool {
        self.pending.is_empty()
    }

    /// Frees what its streams have got past, looking at each stream's oldest marks first (`process_events`); or waits
    /// for every mark (`synchronize_and_free_events`).
    #[cold]
    pub(crate) fn process_pending(&self, wait: bool) {
        if wait {
            self.pending.take_all_told().into_iter().for_each(|waiting| waiting.stream_done(None));
        }
        let done = self.pending.take_reached(self.core.device.as_ref(), wait);
        if !done.is_empty() {
            let stack = self.core.observer.capture_free();
            done.into_iter().for_each(|waiting| waiting.stream_done(stack));
        }
    }

    /// Waits for every mark, now and whenever one is added later: nobody will look again.
    pub(crate) fn close(&self) {
        self.pending.close();
        self.process_pending(true);
    }
}

impl<O: Observer> Arena<O> {
    pub(crate) fn new(shared: Arc<Shared<O>>, key: ArenaKey, no_split: bool) -> Self {
        static ORDINALS: AtomicU64 = AtomicU64::new(0);
        let number = shared.core.observer.add_arena(key);
        let ordinal = ORDINALS.fetch_add(1, Ordering::Relaxed);
        let user = AtomicU64::new(0);
        Self { shared, key, number, ordinal, no_split, user, state: Mutex::default() }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core<O> {
        &self.shared.core
    }

    /// Its pool and stream.
    pub fn key(&self) -> ArenaKey {
        self.key
    }

    /// Names the arena to the observer.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The number of its device.
    pub fn device_id(&self) -> i32 {
        self.core().device_id
    }

    /// Who watches the engine that it belongs to.
    #[inline]
    pub fn observer(&self) -> &O {
        &self.core().observer
    }

    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, O> {
        Locked { arena: self, state: lock(&self.state) }
    }

    /// The id of one more allocation, for one of no bytes.
    pub fn next_id(&self) -> u64 {
        self.lock().next_id()
    }

    /// `user`, a number from 1, uses this memory from here on. Where another used it before, the work of the whole device
    /// is waited for: the two know nothing of each other.
    pub fn adopt(&self, user: u64) {
        let before = self.user.swap(user, Ordering::Relaxed);
        if before != 0 && before != user {
            // Work that failed is over too.
            guarded(|| self.core().device.synchronize_device()).ok();
        }
    }

    /// Ends the use of a block: it is free again at once, or when the other streams that use it get there.
    #[inline]
    pub fn free(self: &Arc<Self>, block: BlockKey, stack: Option<O::Stack>) {
        let streams = self.lock().free(block, stack);
        if !streams.is_empty() {
            self.wait_for(block, streams);
        }
    }

    /// A block waits for `streams` (`insert_events`). Where a stream cannot be marked, as that of another thread, the
    /// whole device is waited for.
    #[cold]
    fn wait_for(self: &Arc<Self>, block: BlockKey, streams: Vec<u64>) {
        let device = self.core().device.as_ref();
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

    /// Ends the use of a block that others still use. Returns the number that
    /// [`free_completed`](Self::free_completed) wants when they are done.
    pub(crate) fn free_requested(self: &Arc<Self>, block: BlockKey) -> u64 {
        self.lock().request_free(block, 1, None);
        self.wait_to_be_told(block)
    }

    /// A block waits until [`free_completed`](Self::free_completed) is told of it by the number returned, or until
    /// every stream is waited for.
    pub(crate) fn wait_to_be_told(self: &Arc<Self>, block: BlockKey) -> u64 {
        self.shared.pending.add_told(WaitingBlock { arena: Arc::clone(self), block })
    }

    /// The streams have got past a block, if it still waits.
    pub(crate) fn free_completed(&self, number: u64) {
        if let Some(waiting) = self.shared.pending.take_told(number) {
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
            && !self.core().device.knows_stream(handle)
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
    /// Gives everything back: the last handle to this memory is gone.
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
pub(crate) struct Locked<'a, O: Observer> {
    arena: &'a Arena<O>,
    state: MutexGuard<'a, State<O::Stack>>,
}

impl<O: Observer> Locked<'_, O> {
    /// It is the lock of this arena.
    pub(crate) fn is_of(&self, arena: &Arena<O>) -> bool {
        std::ptr::eq(self.arena, arena)
    }

    /// Another stream uses a block.
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

    /// Bytes of free blocks in segments of which something is in use.
    pub(crate) fn inactive_split_bytes(&self) -> u64 {
        let free = self.state.free.iter().flat_map(FreeBlocks::iter).map(|key| self.block(key));
        free.filter(|block| block.prev.is_some() || block.next.is_some()).map(|block| block.size).sum()
    }

    #[inline]
    pub(crate) fn block(&self, key: BlockKey) -> &Block<O::Stack> {
        &self.state.blocks[key.index()]
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, key: BlockKey) -> &mut Block<O::Stack> {
        &mut self.state.blocks[key.index()]
    }

    pub(crate) fn segment_of(&self, key: BlockKey) -> &Segment<O::Stack> {
        self.segment(self.block(key).segment)
    }

    #[inline]
    pub(crate) fn segment(&self, segment: u32) -> &Segment<O::Stack> {
        match &self.state.segments[segment as usize] {
            Some(segment) => segment,
            None => unreachable!("a block outlives its segment"),
        }
    }

    /// The arena's segments with their blocks. An expandable segment is one for each run of mapped addresses. A
    /// block held for a request under way is not yet handed out: it is one with the free ones beside it.
    pub(crate) fn segments(&self) -> Vec<SegmentLayout<O::Stack>> {
        let mut found = Vec::new();
        for segment in self.state.segments.iter().flatten() {
            let mut run = Vec::new();
            for (_, block) in self.blocks_from(Some(segment.first)) {
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

    /// A run of mapped addresses of a segment; nothing, if there are none.
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

    pub(crate) fn blocks_from(
        &self,
        first: Option<BlockKey>,
    ) -> impl Iterator<Item = (BlockKey, &Block<O::Stack>)> {
        std::iter::successors(first, |&k| self.block(k).next).map(|k| (k, self.block(k)))
    }
}
