//! Segments and their blocks.

use std::num::NonZeroU32;

use crate::layout::BlockLayout;
use crate::policy::Class;

/// Identifies a block within its arena. A key is reused only after its block is gone.
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

/// A range of a segment: allocated, free or unmapped. Addresses and sizes are in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<Stack> {
    pub(super) address: u64,
    pub(super) size: u64,
    /// Bytes requested by the current or last owner.
    pub(super) requested: u64,
    /// Number of searches for a free block before this block became free; its age is counted from here (`gc_count_base` in PyTorch).
    /// If the policy prefers the block that was freed last: the number of frees instead.
    pub(super) searches: u64,
    /// Stack of the allocation, while the block is in use.
    pub(super) stack: Option<Stack>,
    /// The neighbor at lower addresses in the same segment.
    pub(super) prev: Option<BlockKey>,
    /// The neighbor at higher addresses in the same segment.
    pub(super) next: Option<BlockKey>,
    /// Index of the segment in the arena.
    pub(super) segment: u32,
    /// Number of events on other streams that are not yet complete. At 0 the block becomes free (`event_count` in PyTorch).
    pub(super) events: u32,
    pub(super) state: BlockState,
    pub(super) class: Class,
    /// Whether other streams use the block; the arena's `streams` lists them.
    pub(super) shared: bool,
    /// Mapped block: whether a neighbor may be unmapped. Unmapped block: whether it is already in the list of stale blocks.
    pub(super) next_to_unmapped: bool,
    /// Whether the arena's list of ready blocks has the block.
    pub(super) is_listed: bool,
}

impl<Stack: Copy> Block<Stack> {
    /// Returns the block as a snapshot shows it. A held block appears as free, because it has no owner yet.
    pub(super) fn layout(&self) -> BlockLayout<Stack> {
        let &Self { address, size, requested, stack, .. } = self;
        let state = match self.state {
            BlockState::Allocated => vramscope_trace::BlockState::ActiveAllocated,
            BlockState::PendingFree => vramscope_trace::BlockState::ActivePendingFree,
            BlockState::Free
            | BlockState::Ready
            | BlockState::Held
            | BlockState::Unmapped
            | BlockState::Vacant => vramscope_trace::BlockState::Inactive,
        };
        BlockLayout { address, size, requested, state, stack }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockState {
    /// In the cache.
    Free,
    /// Free, but not merged with its neighbors: the next step of the plan has a block at the same place.
    Ready,
    /// Addresses of an expandable segment without memory.
    Unmapped,
    /// Removed from the free blocks for a request in progress.
    Held,
    /// Allocated to a caller.
    Allocated,
    /// Freed by its owner, but still in use on other streams.
    PendingFree,
    /// No block: the key is unused until a new block takes it.
    Vacant,
}

/// Memory taken from the device in one call, or a reserved address range that memory is mapped into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<Stack> {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) class: Class,
    pub(super) expandable: bool,
    /// Stack of the request for which the segment was taken from the device.
    pub(super) stack: Option<Stack>,
    /// Position in the order in which segments were taken from the device.
    pub(super) age: u64,
    /// The block at the lowest address. It keeps its key for the lifetime of the segment. `None` after the segment was released: the
    /// index is unused until a new segment takes it.
    pub(super) first: Option<BlockKey>,
}
