//! Expandable segments: memory is mapped page by page into a reserved address range (`ExpandableSegment` in
//! `c10/cuda/CUDACachingAllocator.cpp`).
//!
//! The blocks of such a segment cover all its addresses. Ranges without memory are unmapped blocks.

use crate::arena::LockedArena;
use crate::arena::block::{Block, BlockKey, BlockState};
use crate::core::ReservedAddresses;
use crate::device::{DEVICE_PAGE, DeviceError};
use crate::observer::Observer;
use crate::policy::Class;

impl<O: Observer> LockedArena<'_, O> {
    /// Returns the place to grow an expandable segment for a request of `rounded` bytes: the first block of a run of free and unmapped
    /// blocks (`find_expandable_block`). `None` if no run is long enough.
    fn find_expandable(&mut self, class: Class, rounded: u64) -> Option<BlockKey> {
        for address in self.state.unmapped[class as usize].take_stale() {
            self.update_reach(class, address);
        }
        let unmapped = self.state.unmapped[class as usize].first_of(rounded)?;
        Some(self.free_before(unmapped).unwrap_or(unmapped))
    }

    /// Recomputes the reach of an unmapped block with its free neighbors.
    fn update_reach(&mut self, class: Class, address: u64) {
        let Some(key) = self.state.unmapped[class as usize].get(address) else { return };
        let start = self.free_before(key).map_or(address, |before| self.block(before).address);
        let end = self.block(key).address + self.block(key).size;
        let after = self.block(key).next.map(|next| self.block(next));
        let after = after.filter(|next| next.state == BlockState::Free).map_or(0, |next| next.size);
        self.block_mut(key).next_to_unmapped = false;
        self.state.unmapped[class as usize].set_reach(address, (start, end + after));
    }

    /// Returns the neighbor at lower addresses, if it is free.
    fn free_before(&self, key: BlockKey) -> Option<BlockKey> {
        self.block(key).prev.filter(|&prev| self.block(prev).state == BlockState::Free)
    }

    /// Marks the unmapped neighbors of a block as stale after the block became free or stopped being free.
    #[inline(never)]
    pub(super) fn mark_unmapped_neighbours(&mut self, key: BlockKey) {
        let mut found = false;
        let Block { prev, next, class, .. } = *self.block(key);
        for neighbour in [prev, next].into_iter().flatten() {
            let block = self.block_mut(neighbour);
            if block.state != BlockState::Unmapped {
                continue;
            }
            found = true;
            if !std::mem::replace(&mut block.next_to_unmapped, true) {
                let address = block.address;
                self.state.unmapped[class as usize].mark_stale(address);
            }
        }
        self.block_mut(key).next_to_unmapped = found;
    }

    /// Makes a block unmapped, without merging it with its neighbors.
    pub(crate) fn insert_unmapped(&mut self, key: BlockKey) {
        let Block { address, size, class, prev, next, .. } = *self.block(key);
        self.block_mut(key).state = BlockState::Unmapped;
        for marked in [Some(key), prev, next].into_iter().flatten() {
            self.block_mut(marked).next_to_unmapped = true;
        }
        self.state.unmapped[class as usize].insert(address, size, key);
    }

    /// Maps memory into an expandable segment until it can hold a block of `rounded` bytes (`try_allocate_expandable_block`). Calls
    /// `mapped` with the address and the size in bytes of each mapped range.
    ///
    /// # Errors
    /// If the device has no memory or no addresses left. Memory mapped before the error stays mapped and free.
    pub(crate) fn expand(
        &mut self,
        class: Class,
        rounded: u64,
        stack: Option<O::Stack>,
        mapped: &mut dyn FnMut(u64, u64),
    ) -> Result<BlockKey, DeviceError> {
        let mut key = match self.find_expandable(class, rounded) {
            Some(key) => key,
            None => self.reserve(class, rounded, stack)?,
        };
        let mut next = key;
        while self.block(key).state == BlockState::Unmapped || self.block(key).size < rounded {
            if self.block(key).state != BlockState::Unmapped {
                match self.block(key).next {
                    Some(behind) => next = behind,
                    None => break,
                }
            }
            let covered = if next == key { 0 } else { self.block(key).size };
            let block = self.block(next);
            let (address, missing) = (block.address, (rounded - covered).min(block.size));
            let (joined, bytes) = self.map(class, next, missing, stack)?;
            mapped(address, bytes);
            key = joined;
            next = key;
        }
        self.hold(key);
        Ok(key)
    }

    /// Reserves addresses for a new segment, all unmapped.
    fn reserve(
        &mut self,
        class: Class,
        rounded: u64,
        stack: Option<O::Stack>,
    ) -> Result<BlockKey, DeviceError> {
        let ReservedAddresses { address, size, age } = self.arena.core().reserve(class)?;
        if size < rounded {
            self.arena.core().release(address, size)?;
            return Err(DeviceError::OutOfMemory { size: rounded });
        }
        let key = self.push_unmapped_segment(address, size, class, true, stack, age);
        self.insert_unmapped(key);
        Ok(key)
    }

    /// Page size in bytes of this arena's expandable segments.
    pub(super) fn page_size(&self, class: Class) -> u64 {
        if self.is_planned() { DEVICE_PAGE } else { self.arena.core().policy().page_size(class) }
    }

    /// Maps whole pages over the first `size` bytes of an unmapped block (`map_block`). Returns the free block that then contains them,
    /// and the number of mapped bytes.
    pub(super) fn map(
        &mut self,
        class: Class,
        key: BlockKey,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<(BlockKey, u64), DeviceError> {
        let address = self.block(key).address;
        let page = self.page_size(class);
        let bytes = size.next_multiple_of(page);
        self.arena.core().map(self.arena.number, class, address, bytes, page, stack)?;
        self.remove_from_set(key);
        if bytes < self.block(key).size {
            let rest = self.split(key, bytes);
            self.insert_unmapped(rest);
        }
        let key = self.join(key, BlockState::Free);
        self.insert_free(key);
        Ok((key, bytes))
    }

    /// Returns the half-open range of whole pages inside a block of an expandable segment. It is empty if the end is not above the
    /// start.
    pub(super) fn whole_pages(&self, key: BlockKey) -> (u64, u64) {
        let (block, segment) = (self.block(key), self.segment_of(key));
        let (base, page) = (segment.address, self.page_size(segment.class));
        let start = base + (block.address - base).next_multiple_of(page);
        (start, base + (block.address + block.size - base) / page * page)
    }

    /// Unmaps the whole pages inside a free block of an expandable segment (`unmap_block`). Releases the segment's addresses if nothing
    /// remains mapped.
    pub(super) fn unmap(&mut self, key: BlockKey, stack: Option<O::Stack>) -> Result<(), DeviceError> {
        let (start, end) = self.whole_pages(key);
        if start >= end {
            return Ok(());
        }
        let (index, segment) = (self.block(key).segment, self.segment_of(key));
        let (class, stack) = (segment.class, stack.or(segment.stack));
        let page = self.page_size(class);
        self.arena.core().unmap(self.arena.number, class, start, end - start, page, stack)?;
        if self.streams().is_some() {
            self.forget_uses(start, end);
        }
        self.remove_free(key);
        let mut unmapped = key;
        if start > self.block(key).address {
            unmapped = self.split(key, start - self.block(key).address);
            self.insert_free(key);
        }
        if end - start < self.block(unmapped).size {
            let after = self.split(unmapped, end - start);
            self.insert_free(after);
        }
        let unmapped = self.join(unmapped, BlockState::Unmapped);
        let block = self.block(unmapped);
        if block.prev.is_none() && block.next.is_none() {
            let (address, size) = (block.address, block.size);
            self.vacate(unmapped);
            self.vacate_segment(index);
            return self.arena.core().release(address, size);
        }
        self.insert_unmapped(unmapped);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
