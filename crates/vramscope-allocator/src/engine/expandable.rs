//! Segments that grow: memory mapped, page by page, into addresses reserved once
//! (`ExpandableSegment` of `c10/cuda/CUDACachingAllocator.cpp`).
//!
//! The blocks of such a segment fill all its addresses; where no memory is mapped, they are unmapped blocks.

use super::arena::{BlockKey, BlockState, Locked};
use crate::device::DeviceError;
use crate::history::StackKey;
use crate::policy::Class;

impl Locked<'_> {
    /// Where a request would grow an expandable segment: the first of the blocks to use, if there is a place
    /// (`find_expandable_block`).
    fn find_expandable(&self, class: Class, rounded: u64) -> Option<BlockKey> {
        let usable = |key: BlockKey| matches!(self.block(key).state, BlockState::Free | BlockState::Unmapped);
        self.state.unmapped[class as usize].values().find_map(|&unmapped| {
            let first = self.block(unmapped).prev.filter(|&prev| usable(prev)).unwrap_or(unmapped);
            let mut room = 0u64;
            for (key, block) in self.blocks_from(Some(first)) {
                if !usable(key) || room >= rounded {
                    break;
                }
                room += block.size;
            }
            (room >= rounded).then_some(first)
        })
    }

    /// Maps memory into an expandable segment until a block of `rounded` bytes can be held
    /// (`try_allocate_expandable_block`). `mapped` is told the address and the bytes of each range.
    ///
    /// # Errors
    /// Where the device has no memory or no addresses left. What was mapped until then stays, free.
    pub(super) fn expand(
        &mut self,
        class: Class,
        rounded: u64,
        stack: Option<StackKey>,
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
        stack: Option<StackKey>,
    ) -> Result<BlockKey, DeviceError> {
        let (address, size, age) = self.arena.core.reserve(class)?;
        if size < rounded {
            self.arena.core.release(address, size)?;
            return Err(DeviceError::OutOfMemory { size: rounded });
        }
        let key = self.push_segment(address, size, class, true, stack, age, BlockState::Unmapped);
        self.insert_unmapped(key);
        Ok(key)
    }

    /// Maps whole pages over the first `size` bytes of an unmapped block (`map_block`). Returns the free block
    /// they are part of then, and the bytes mapped.
    fn map(
        &mut self,
        class: Class,
        key: BlockKey,
        size: u64,
        stack: Option<StackKey>,
    ) -> Result<(BlockKey, u64), DeviceError> {
        let address = self.block(key).address;
        let bytes = size.next_multiple_of(self.arena.core.policy.page_size(class));
        self.arena.core.map(self.arena.tag, class, address, bytes, stack)?;
        self.remove_from_set(key);
        if bytes < self.block(key).size {
            let rest = self.split(key, bytes);
            self.insert_unmapped(rest);
        }
        let key = self.join(key, BlockState::Free);
        self.insert_free(key);
        Ok((key, bytes))
    }

    /// From where to where whole pages lie inside a block of an expandable segment; nowhere, if the end is not above
    /// the start.
    pub(super) fn whole_pages(&self, key: BlockKey) -> (u64, u64) {
        let (block, segment) = (self.block(key), self.segment_of(key));
        let (base, page) = (segment.address, self.arena.core.policy.page_size(segment.class));
        let start = base + (block.address - base).next_multiple_of(page);
        (start, base + (block.address + block.size - base) / page * page)
    }

    /// Unmaps the whole pages inside a free block of an expandable segment (`unmap_block`), and gives the
    /// segment's addresses back when nothing is mapped any more.
    pub(super) fn unmap(&mut self, key: BlockKey, stack: Option<StackKey>) -> Result<(), DeviceError> {
        let (start, end) = self.whole_pages(key);
        if start >= end {
            return Ok(());
        }
        let (index, segment) = (self.block(key).segment, self.segment_of(key));
        let (class, stack) = (segment.class, stack.or(segment.stack));
        self.arena.core.unmap(self.arena.tag, class, start, end - start, stack)?;
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
            return self.arena.core.release(address, size);
        }
        self.insert_unmapped(unmapped);
        Ok(())
    }
}
