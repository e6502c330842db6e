//! The block list of a segment, and the sets of free and unmapped blocks.

use crate::arena::LockedArena;
use crate::arena::block::{Block, BlockKey, BlockState};
use crate::arena::free_blocks::SearchKey;
use crate::observer::Observer;
use crate::policy::SearchOrder;

impl<O: Observer> LockedArena<'_, O> {
    /// Merges a block with its free neighbors and adds it to the free blocks.
    #[inline]
    pub(super) fn join_and_insert(&mut self, key: BlockKey) {
        let key = self.join(key, BlockState::Free);
        self.insert_free(key);
    }

    /// Sets the state of a block to `state` and merges it with its neighbors in that state, which leave their sets. Returns the key of
    /// the merged block.
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

    /// Merges a block with the next one, whose key becomes vacant.
    #[inline]
    fn absorb_next(&mut self, key: BlockKey) {
        let Some(absorbed) = self.block(key).next else { return };
        let Block { size, next: after, next_to_unmapped, .. } = *self.block(absorbed);
        let block = self.block_mut(key);
        block.size += size;
        block.next_to_unmapped |= next_to_unmapped;
        block.next = after;
        if let Some(after) = after {
            self.block_mut(after).prev = Some(key);
        }
        self.vacate(absorbed);
    }

    /// Removes a block. A new block may reuse its key.
    #[inline]
    pub(super) fn vacate(&mut self, key: BlockKey) {
        if self.is_planned() {
            self.forget_planned(key);
        }
        self.block_mut(key).state = BlockState::Vacant;
        self.state.vacant_blocks.push(key);
    }

    /// Splits a block after `size` bytes. The front keeps the key. Returns the rest, which has the same state but is in no set.
    #[inline]
    pub(crate) fn split(&mut self, key: BlockKey, size: u64) -> BlockKey {
        let block = self.block_mut(key);
        let rest = Block {
            address: block.address + size,
            size: block.size - size,
            requested: 0,
            prev: Some(key),
            is_listed: false,
            ..*block
        };
        let after = block.next;
        block.size = size;
        let rest = self.new_block(rest);
        self.block_mut(key).next = Some(rest);
        if self.is_planned() {
            self.index_planned(rest);
        }
        if let Some(after) = after {
            self.block_mut(after).prev = Some(rest);
        }
        rest
    }

    /// Stores a block under a new or vacant key.
    #[inline]
    pub(super) fn new_block(&mut self, block: Block<O::Stack>) -> BlockKey {
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

    /// Returns the position of a free block in the search order.
    #[inline]
    pub(super) fn search_key(&self, block: &Block<O::Stack>) -> SearchKey {
        let age = match self.arena.core().policy().search_order {
            SearchOrder::Address => 0,
            SearchOrder::SegmentAge => self.segment(block.segment).age,
            SearchOrder::LastFreed => u64::MAX - block.searches,
        };
        (block.size, age, block.address)
    }

    /// Adds a block to the free blocks, without merging it with its neighbors.
    #[inline]
    pub(crate) fn insert_free(&mut self, key: BlockKey) {
        let class = self.block(key).class;
        let searches = match self.arena.core().policy().search_order {
            SearchOrder::LastFreed => {
                self.state.frees += 1;
                self.state.frees
            }
            SearchOrder::Address | SearchOrder::SegmentAge => {
                self.arena.core().searches(self.arena.key, class)
            }
        };
        let block = self.block_mut(key);
        block.state = BlockState::Free;
        block.searches = searches;
        let search_key = self.search_key(self.block(key));
        self.state.free[class as usize].insert(search_key, key);
        if self.block(key).next_to_unmapped {
            self.mark_unmapped_neighbours(key);
        }
    }

    /// Removes a block from the free blocks.
    #[inline]
    pub(super) fn remove_free(&mut self, key: BlockKey) {
        let block = self.block(key);
        let (class, search_key) = (block.class, self.search_key(block));
        self.state.free[class as usize].remove(search_key);
        if self.block(key).next_to_unmapped {
            self.mark_unmapped_neighbours(key);
        }
    }

    /// Removes a block from the set of its state, if any.
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
}
