//! Segments, and the blocks they are divided into.

use std::num::NonZeroU32;

use crate::layout::BlockLayout;
use crate::policy::Class;

/// Names a block within its arena. A key is given to another block only after the block it named is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockKey(NonZeroU32);

impl BlockKey {
    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index + 1).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A part of a segment: memory handed out or free, or addresses without memory. Addresses and sizes are in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<Stack> {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Bytes that its present or last owner asked for.
    pub(super) requested: u64,
    /// How many requests had searched for a free block when this one became free: its age is counted from here
    /// (`gc_count_base` of PyTorch).
    pub(super) searches: u64,
    /// Where it was asked for, while it is in use.
    pub(super) stack: Option<Stack>,
    /// The neighbour at lower addresses in the same segment.
    pub(super) prev: Option<BlockKey>,
    /// The neighbour at higher addresses in the same segment.
    pub(super) next: Option<BlockKey>,
    /// The position of its segment among those of the arena.
    pub(super) segment: u32,
    /// Events recorded on other streams that have not completed yet; the block is free when none is left
    /// (`event_count` of PyTorch).
    pub(super) events: u32,
    pub(super) state: BlockState,
    pub(super) class: Class,
    /// Whether other streams use it; the arena's `streams` says which.
    pub(super) shared: bool,
    /// Of a mapped block, whether a neighbour may be unmapped. Of an unmapped block, whether it is already listed as
    /// one whose run of addresses must be measured again.
    pub(super) next_to_unmapped: bool,
}

impl<Stack: Copy> Block<Stack> {
    /// The block as a snapshot shows it. A held block is shown as free: it is about to be handed out, and nobody has it
    /// yet.
    pub(super) fn layout(&self) -> BlockLayout<Stack> {
        let &Self { address, size, requested, stack, .. } = self;
        let state = match self.state {
            BlockState::Allocated => vramscope_trace::BlockState::ActiveAllocated,
            BlockState::PendingFree => vramscope_trace::BlockState::ActivePendingFree,
            BlockState::Free | BlockState::Held | BlockState::Unmapped | BlockState::Vacant => {
                vramscope_trace::BlockState::Inactive
            }
        };
        BlockLayout { address, size, requested, state, stack }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockState {
    /// In the cache.
    Free,
    /// Addresses of an expandable segment without memory.
    Unmapped,
    /// Taken out of the free blocks for a request that is under way.
    Held,
    /// Handed out.
    Allocated,
    /// Freed by its owner, while other streams still use it.
    PendingFree,
    /// Not a block: the key is unused until the next block takes it.
    Vacant,
}

/// Memory taken from the device in one call, or a reserved range of addresses that memory is mapped into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<Stack> {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) class: Class,
    pub(super) expandable: bool,
    /// Where the request came from for which it was taken from the device.
    pub(super) stack: Option<Stack>,
    /// Its number in the order in which segments were taken from the device.
    pub(super) age: u64,
    /// Its block at the lowest address, which keeps its key as long as the segment is there. `None` once the segment was
    /// given back: the position is unused until the next segment takes it.
    pub(super) first: Option<BlockKey>,
}
