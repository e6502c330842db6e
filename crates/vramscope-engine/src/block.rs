//! The pieces that segments are divided into.

use std::num::NonZeroU32;

use crate::layout::BlockLayout;
use crate::policy::Class;

/// A block in its arena; never that of another block while the block lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockKey(NonZeroU32);

impl BlockKey {
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index + 1).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<Stack> {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// What its present or last user asked for.
    pub(crate) requested: u64,
    /// Searches there had been when it became free.
    pub(crate) searches: u64,
    pub(crate) stack: Option<Stack>,
    pub(crate) prev: Option<BlockKey>,
    pub(crate) next: Option<BlockKey>,
    pub(crate) segment: u32,
    /// Marks in other streams that are not yet reached.
    pub(crate) events: u32,
    pub(crate) state: BlockState,
    pub(crate) class: Class,
    /// Other streams use it: `State::streams` says which.
    pub(crate) shared: bool,
    /// An unmapped block may lie beside it; of an unmapped block, its reach is to be measured again.
    pub(crate) beside_unmapped: bool,
}

impl<Stack: Copy> Block<Stack> {
    /// The block as a snapshot shows it. A held block is about to be handed out; nobody has it yet.
    pub(crate) fn layout(&self) -> BlockLayout<Stack> {
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
pub(crate) enum BlockState {
    Free,
    /// Addresses of an expandable segment without memory.
    Unmapped,
    /// Taken out of the free blocks for a request that is under way.
    Held,
    Allocated,
    /// Freed; other streams still use it.
    PendingFree,
    /// No block: the key waits for one.
    Vacant,
}

/// Memory taken from the device, or a reserved range that memory is mapped into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<Stack> {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) class: Class,
    pub(crate) expandable: bool,
    pub(crate) stack: Option<Stack>,
    pub(crate) age: u64,
    pub(crate) first: BlockKey,
}
