//! Blocks at planned addresses: one expandable segment for each stream of a [`Plan`](crate::Plan), or for all of them, mapped where it is
//! used.
//!
//! A planned block is never placed over another block in use, whatever the plan says.
//!
//! A freed block is not merged with its neighbors at once: the next step asks for the same place. It is merged when another request, or
//! anything else, needs the free memory of the segment.

use std::collections::BTreeMap;

use vramscope_basics::count_steps;

use crate::arena::block::{Block, BlockKey, BlockState};
use crate::arena::place::{NotPlaced, PlannedPlace, StreamUse};
use crate::arena::shared::SharedStreams;
use crate::arena::{Grant, LockedArena};
use crate::core::ReservedAddresses;
use crate::device::DEVICE_PAGE;
use crate::observer::Observer;
use crate::policy::Class;

/// The blocks of a plan's segment.
#[derive(Default)]
pub(super) struct PlannedBlocks {
    /// All blocks by address.
    by_address: BTreeMap<u64, BlockKey>,
    /// The blocks that became [`BlockState::Ready`]. Some are in use again.
    ready: Vec<BlockKey>,
    /// The streams, if they share the segment.
    pub(super) shared: Option<SharedStreams>,
}

impl<O: Observer> LockedArena<'_, O> {
    /// Whether this arena has the segment of a plan.
    #[inline]
    pub(super) fn is_planned(&self) -> bool {
        self.state.planned.is_some()
    }

    /// Adds a block to the index by address.
    #[inline(never)]
    pub(super) fn index_planned(&mut self, key: BlockKey) {
        let address = self.block(key).address;
        if let Some(planned) = &mut self.state.planned {
            planned.by_address.insert(address, key);
        }
    }

    /// Removes a block from the index by address.
    #[inline(never)]
    pub(super) fn forget_planned(&mut self, key: BlockKey) {
        let address = self.block(key).address;
        if let Some(planned) = &mut self.state.planned {
            planned.by_address.remove(&address);
        }
    }

    /// Returns the block that contains `address`.
    fn planned_at(&self, address: u64) -> Option<BlockKey> {
        count_steps(1);
        let (_, &key) = self.state.planned.as_ref()?.by_address.range(..=address).next_back()?;
        Some(key)
    }

    /// Holds a block that starts at the place and is at least as large. Maps missing pages.
    pub(crate) fn hold_planned(
        &mut self,
        place: PlannedPlace,
        stack: Option<O::Stack>,
    ) -> Result<BlockKey, NotPlaced> {
        if let Some(planned) = self.state.planned.as_mut().filter(|_| place.shared_by.is_some()) {
            // From the first page on: requests without a place may get free pages of the plan.
            planned.shared.get_or_insert_default();
        }
        let base = self.planned_segment(place.segment)?;
        let (start, end) = range_of(place, base);
        let first = self.planned_at(start).ok_or(NotPlaced::NoMemory)?;
        let within = |block: &Block<O::Stack>| block.address < end;
        let is_available =
            |block: &Block<O::Stack>| matches!(block.state, BlockState::Free | BlockState::Unmapped);
        let mut blocks = self.blocks_from(Some(first)).map(|(_, block)| block).take_while(|b| within(b));
        if !blocks.all(is_available) {
            return Err(NotPlaced::InUse);
        }
        drop(blocks);
        if let Some(used_by) = place.shared_by {
            self.wait_for_streams(start, end, used_by.stream)?;
        }
        self.map_planned(base, start, end, stack)?;
        // Free neighbors are merged, so one free block contains the place.
        let key = self.planned_at(start).ok_or(NotPlaced::NoMemory)?;
        Ok(self.hold_from(key, start, place))
    }

    /// Holds the part of a free or ready block from `start` on, for a block at this place.
    fn hold_from(&mut self, key: BlockKey, start: u64, place: PlannedPlace) -> BlockKey {
        if self.block(key).state == BlockState::Free {
            self.hold(key);
        }
        let front = start - self.block(key).address;
        let held = if front > 0 { self.split(key, front) } else { key };
        if front > 0 {
            self.insert_free(key);
        }
        if let Some(used_by) = place.shared_by {
            self.set_stream(held, place.size, used_by);
        }
        // Planned blocks have their places, so the room to grow is never searched.
        self.state.unmapped[Class::Large as usize].take_stale();
        held
    }

    /// Returns the bytes of the pages that have to be mapped for a block at this place; 0 if the place is in use.
    pub(crate) fn missing_bytes(&self, place: PlannedPlace) -> u64 {
        let segment = self.state.segments.iter().find(|segment| segment.first.is_some());
        let base = segment.map_or(0, |segment| segment.address);
        let (start, end) = range_of(place, base);
        let (first, last) = pages_of(base, start, end);
        if segment.is_none() {
            return last - first;
        }
        let blocks = self.blocks_from(self.planned_at(start)).map(|(_, block)| block);
        let mut missing = 0;
        for block in blocks.take_while(|block| block.address < end) {
            match block.state {
                BlockState::Unmapped => {
                    missing += last.min(block.address + block.size) - first.max(block.address);
                }
                BlockState::Free => {}
                _ => return 0,
            }
        }
        missing
    }

    /// Releases whole free pages, those of the largest blocks first, until at least `bytes` are released. Returns the released bytes. Blocks
    /// that the device refuses stay.
    pub(crate) fn release_planned(&mut self, bytes: u64, stack: Option<O::Stack>) -> u64 {
        let mut released = 0;
        for key in self.state.free[Class::Large as usize].take_added().into_iter().rev() {
            let (start, end) = self.whole_pages(key);
            if start >= end {
                continue;
            }
            if released >= bytes || self.unmap(key, stack).is_err() {
                self.keep_releasable(key);
            } else {
                released += end - start;
            }
        }
        released
    }

    /// Records that the owner of a block frees it.
    #[inline(never)]
    pub(super) fn begin_planned_free(&mut self, key: BlockKey) {
        if self.streams().is_some() {
            self.mark_freed(key);
        }
    }

    /// Keeps a block that becomes free as it is, for the next step.
    #[inline(never)]
    pub(super) fn end_planned_free(&mut self, key: BlockKey) {
        if self.streams().is_some() {
            self.end_use(key);
        }
        let block = self.block_mut(key);
        block.state = BlockState::Ready;
        if !std::mem::replace(&mut block.is_listed, true)
            && let Some(planned) = &mut self.state.planned
        {
            planned.ready.push(key);
        }
    }

    /// Merges the ready blocks with the free blocks.
    pub(super) fn merge_ready(&mut self) {
        let Some(planned) = self.state.planned.as_mut().filter(|planned| !planned.ready.is_empty()) else {
            return;
        };
        let mut ready = std::mem::take(&mut planned.ready);
        for key in ready.drain(..) {
            let block = self.block_mut(key);
            block.is_listed = false;
            if block.state == BlockState::Ready {
                self.join_and_insert(key);
            }
        }
        // The list keeps its memory.
        if let Some(planned) = &mut self.state.planned {
            planned.ready = ready;
        }
    }

    /// Allocates a block where the last step had one, or within one free block. Returns `None` if there is neither, or the block may raise
    /// a peak.
    pub(crate) fn commit_planned(
        &mut self,
        place: PlannedPlace,
        requested: u64,
        stack: Option<O::Stack>,
    ) -> Option<Result<Grant, NotPlaced>> {
        if !self.tally().has_room(requested, place.size) {
            return None;
        }
        let segment = self.state.segments.iter().find(|segment| segment.first.is_some())?;
        if place.segment > segment.size {
            return None;
        }
        let (start, end) = range_of(place, segment.address);
        let key = match self.ready_at(start, place.size) {
            Some(key) => key,
            None => {
                self.merge_ready();
                self.free_around(start, end)?
            }
        };
        if let Some(used_by) = place.shared_by
            && let Err(e) = self.wait_for_streams(start, end, used_by.stream)
        {
            return Some(Err(e));
        }
        let held = self.hold_from(key, start, place);
        Some(Ok(self.commit(held, place.size, requested, stack)))
    }

    /// Returns the ready block at an address, if it has this size.
    fn ready_at(&self, address: u64, size: u64) -> Option<BlockKey> {
        let key = *self.state.planned.as_ref()?.by_address.get(&address)?;
        let block = self.block(key);
        (block.state == BlockState::Ready && block.size == size).then_some(key)
    }

    /// Returns the free block that contains the half-open range of addresses.
    fn free_around(&self, start: u64, end: u64) -> Option<BlockKey> {
        let key = self.planned_at(start)?;
        let block = self.block(key);
        (block.state == BlockState::Free && end <= block.address + block.size).then_some(key)
    }

    /// Holds a free block of at least `size` bytes for a request on `stream` without a place.
    pub(crate) fn hold_unplanned(&mut self, size: u64, stream: u64) -> Option<BlockKey> {
        let block = self.state.free[Class::Large as usize].from(size).find(|&key| {
            let start = self.block(key).address;
            self.wait_for_streams(start, start + size, stream).is_ok()
        })?;
        self.hold(block);
        if self.streams().is_some() {
            self.set_stream(block, size, StreamUse { stream, is_handed_over: false });
        }
        Some(block)
    }

    /// Maps all unmapped pages of the half-open range of addresses, which has no block in use. Pages are mapped as a whole: a page with a
    /// mapped block has no unmapped one, however many blocks it has.
    fn map_planned(
        &mut self,
        base: u64,
        start: u64,
        end: u64,
        stack: Option<O::Stack>,
    ) -> Result<(), NotPlaced> {
        let (first, last) = pages_of(base, start, end);
        let mut at = start;
        while at < end {
            let key = self.planned_at(at).ok_or(NotPlaced::NoMemory)?;
            let Block { address, size, state, .. } = *self.block(key);
            let (from, until) = (first.max(address), last.min(address + size));
            if state == BlockState::Unmapped {
                if self.arena.core().exceeds_limit(until - from) {
                    return Err(NotPlaced::NoMemory);
                }
                let mut key = key;
                if from > address {
                    self.remove_from_set(key);
                    let rest = self.split(key, from - address);
                    self.insert_unmapped(key);
                    self.insert_unmapped(rest);
                    key = rest;
                }
                self.map(Class::Large, key, until - from, stack).map_err(|_| NotPlaced::NoMemory)?;
            }
            at = until;
        }
        Ok(())
    }

    /// Returns the first address of the plan's segment, which is reserved if it does not exist.
    fn planned_segment(&mut self, size: u64) -> Result<u64, NotPlaced> {
        if let Some(segment) = self.state.segments.iter().find(|segment| segment.first.is_some()) {
            // Two plans in one arena would disagree on the size.
            return if segment.size >= size { Ok(segment.address) } else { Err(NotPlaced::NoMemory) };
        }
        let size = size.checked_next_multiple_of(DEVICE_PAGE).ok_or(NotPlaced::NoMemory)?;
        let reserved = self.arena.core().reserve_bytes(size).map_err(|_| NotPlaced::NoMemory)?;
        let ReservedAddresses { address, size, age } = reserved;
        let key = self.push_unmapped_segment(address, size, Class::Large, true, None, age);
        self.index_planned(key);
        self.insert_unmapped(key);
        Ok(address)
    }
}

/// The half-open range of addresses of the pages that contain a range, in a segment that begins at `base`.
fn pages_of(base: u64, start: u64, end: u64) -> (u64, u64) {
    let first = base + (start - base) / DEVICE_PAGE * DEVICE_PAGE;
    (first, base + (end - base).next_multiple_of(DEVICE_PAGE))
}

/// The half-open range of addresses of a place in the segment that begins at `base`. A checked plan cannot overflow: its segments have at
/// most 2^50 bytes.
fn range_of(place: PlannedPlace, base: u64) -> (u64, u64) {
    (base + place.offset, base + place.offset + place.size)
}
