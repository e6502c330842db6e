//! Taking segments from the device and releasing them.

use crate::arena::LockedArena;
use crate::arena::block::{Block, BlockKey, BlockState, Segment};
use crate::arena::free_blocks::FreeBlocks;
use crate::device::DeviceError;
use crate::observer::Observer;
use crate::policy::Class;

impl<O: Observer> LockedArena<'_, O> {
    /// Takes a segment from the device and holds its only block.
    ///
    /// # Errors
    /// Errors of the device, and [`DeviceError::OutOfMemory`] if the limit would be exceeded.
    pub(crate) fn add_segment(
        &mut self,
        class: Class,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<BlockKey, DeviceError> {
        let (address, age) = self.arena.core().allocate(self.arena.number, class, size, stack)?;
        Ok(self.push_segment(address, size, class, false, stack, age, BlockState::Held))
    }

    /// Adds a segment whose only block is unmapped and in no set. Returns that block's key.
    pub(crate) fn push_unmapped_segment(
        &mut self,
        address: u64,
        size: u64,
        class: Class,
        expandable: bool,
        stack: Option<O::Stack>,
        age: u64,
    ) -> BlockKey {
        self.push_segment(address, size, class, expandable, stack, age, BlockState::Unmapped)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a segment and of its first block")]
    fn push_segment(
        &mut self,
        address: u64,
        size: u64,
        class: Class,
        expandable: bool,
        stack: Option<O::Stack>,
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
            next_to_unmapped: false,
            is_listed: false,
        });
        let segment = Segment { address, size, class, expandable, stack, age, first: Some(first) };
        match self.state.segments.get_mut(vacant) {
            Some(slot) => *slot = segment,
            None => self.state.segments.push(segment),
        }
        first
    }

    /// Free blocks of a class that fill their segments, in search order. Each has its age: the number of searches for a free block
    /// since it became free (`gc_count` in PyTorch).
    pub(crate) fn whole_segments(&self, class: Class) -> Vec<(BlockKey, u64)> {
        let searches = self.arena.core().searches(self.arena.key, class);
        self.state.free[class as usize]
            .iter()
            .filter(|&key| self.block(key).prev.is_none() && self.block(key).next.is_none())
            .map(|key| (key, searches.saturating_sub(self.block(key).searches)))
            .collect()
    }

    /// Releases the segment of a free block that fills it.
    ///
    /// # Errors
    /// Errors of the device. The block then stays.
    fn release_segment(&mut self, key: BlockKey, stack: Option<O::Stack>) -> Result<(), DeviceError> {
        let (index, segment) = (self.block(key).segment, self.segment_of(key));
        let (address, size, stack) = (segment.address, segment.size, stack.or(segment.stack));
        self.arena.core().free(self.arena.number, segment.class, address, size, stack)?;
        self.remove_free(key);
        self.vacate(key);
        self.vacate_segment(index);
        Ok(())
    }

    /// Removes a segment. A new segment may reuse its index.
    pub(super) fn vacate_segment(&mut self, index: u32) {
        self.state.segments[index as usize].first = None;
        self.state.vacant_segments.push(index);
    }

    /// Returns the free block that contains `address`.
    pub(crate) fn free_block_around(&self, address: u64) -> Option<BlockKey> {
        let free = self.state.free.iter().flat_map(FreeBlocks::iter);
        let holds = |b: &Block<O::Stack>| b.address <= address && address - b.address < b.size;
        free.into_iter().find(|&key| holds(self.block(key)))
    }

    /// Releases a free block as far as possible: the segment if the block fills it, or the whole pages inside the block of an
    /// expandable segment.
    ///
    /// # Errors
    /// Errors of the device.
    pub(crate) fn release_block(
        &mut self,
        key: BlockKey,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        if self.segment_of(key).expandable {
            self.unmap(key, stack)
        } else {
            self.release_if_whole(key, stack).map(drop)
        }
    }

    /// Releases the segment of a block, if the block is still free and fills the segment. Returns the released bytes: 0 if the block
    /// does not qualify or the segment is expandable.
    ///
    /// # Errors
    /// Errors of the device.
    pub(crate) fn release_if_whole(
        &mut self,
        key: BlockKey,
        stack: Option<O::Stack>,
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

    /// Returns the bytes that [`release_cached`](Self::release_cached) would release, over all classes.
    pub(crate) fn releasable_bytes(&mut self) -> u64 {
        let mut bytes = 0;
        for class in [Class::Small, Class::Large] {
            for key in self.state.free[class as usize].take_added() {
                let block = self.block(key);
                let releasable = if self.segment_of(key).expandable {
                    let (start, end) = self.whole_pages(key);
                    end.saturating_sub(start)
                } else if block.prev.is_none() && block.next.is_none() {
                    block.size
                } else {
                    0
                };
                if releasable > 0 {
                    self.keep_releasable(key);
                }
                bytes += releasable;
            }
        }
        bytes
    }

    /// Leaves a free block to the next release.
    pub(super) fn keep_releasable(&mut self, key: BlockKey) {
        let (class, search_key) = (self.block(key).class, self.search_key(self.block(key)));
        self.state.free[class as usize].keep_added(search_key);
    }

    /// Releases all cached memory of a class: unsplit segments, and whole free pages of expandable segments (`release_blocks`). Tries
    /// all blocks, then returns the first error of the device.
    pub(crate) fn release_cached(
        &mut self,
        class: Class,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        let mut outcome = Ok(());
        for key in self.state.free[class as usize].take_added() {
            outcome = outcome.and(self.release_block(key, stack));
        }
        if outcome.is_err() {
            self.state.free[class as usize].add_all();
        }
        outcome
    }

    /// Releases blocks too large to be split, enough for a request of `rounded` bytes (`release_available_cached_blocks`). Returns
    /// whether it released enough.
    pub(crate) fn release_oversize(
        &mut self,
        class: Class,
        rounded: u64,
        max_split: u64,
        stack: Option<O::Stack>,
    ) -> Result<bool, DeviceError> {
        let need = rounded.max(max_split);
        let free = &self.state.free[class as usize];
        if let Some(key) = free.first_of(need)
            && self.release_if_whole(key, stack)? > 0
        {
            return Ok(true);
        }
        let below = self.state.free[class as usize].below(need);
        let oversize: Vec<BlockKey> = below.take_while(|&key| self.block(key).size >= max_split).collect();
        let mut released = 0;
        for key in oversize {
            if released >= need {
                break;
            }
            released += self.release_if_whole(key, stack)?;
        }
        Ok(released >= need)
    }

    /// Releases a segment, whatever the state of its blocks.
    pub(super) fn discard(&mut self, index: u32) {
        let segment = &mut self.state.segments[index as usize];
        let Some(first) = segment.first.take() else { return };
        let segment = *segment;
        let core = self.arena.core();
        if !segment.expandable {
            core.free(self.arena.number, segment.class, segment.address, segment.size, segment.stack).ok();
            return;
        }
        let mut next = Some(first);
        // Unmap adjacent mapped blocks together: they may share a page.
        while let Some(key) = next {
            let start = self.block(key).address;
            let mut end = start;
            while let Some(key) = next.filter(|&k| self.block(k).state != BlockState::Unmapped) {
                end += self.block(key).size;
                next = self.block(key).next;
            }
            if end > start {
                let page = self.page_size(segment.class);
                core.unmap(self.arena.number, segment.class, start, end - start, page, segment.stack).ok();
            } else {
                next = self.block(key).next;
            }
        }
        core.release(segment.address, segment.size).ok();
    }
}
