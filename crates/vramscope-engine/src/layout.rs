//! The segments and blocks of an engine, in the form of a snapshot.

use vramscope_trace::{Block, BlockState, Segment};

use crate::arena_key::ArenaKey;
use crate::policy::Class;

/// A segment and its blocks at one moment; of an expandable segment, a run of mapped addresses.
#[derive(Debug, Clone)]
pub struct SegmentLayout<Stack> {
    /// The pool and stream that it serves.
    pub arena: ArenaKey,
    /// Whether it serves small or large requests.
    pub class: Class,
    /// Whether it grows by mapping pages into reserved addresses.
    pub expandable: bool,
    /// The stack of the request for which it was taken from the device.
    pub stack: Option<Stack>,
    /// Its blocks in address order, without gaps.
    pub blocks: Vec<BlockLayout<Stack>>,
}

/// A block of a segment. Free blocks are inactive, and so is one that is held for a request under way.
#[derive(Debug, Clone, Copy)]
pub struct BlockLayout<Stack> {
    /// First byte on the device.
    pub address: u64,
    /// The size of the block, in bytes.
    pub size: u64,
    /// Bytes that its present or last user asked for.
    pub requested: u64,
    /// Its state, by PyTorch's names.
    pub state: BlockState,
    /// The stack of the request, while it is in use.
    pub stack: Option<Stack>,
}

impl<Stack> SegmentLayout<Stack> {
    /// First byte on the device.
    pub fn address(&self) -> u64 {
        self.blocks.first().map_or(0, |block| block.address)
    }

    /// The sum of its blocks' bytes.
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(|block| block.size).sum()
    }

    /// The segment and its blocks in a trace, without their stacks.
    pub fn without_stacks(&self) -> (Segment, Vec<Block>) {
        let blocks: Vec<Block> = self.blocks.iter().map(BlockLayout::without_stack).collect();
        let sum = |bytes: &dyn Fn(&Block) -> u64| Some(blocks.iter().map(bytes).sum());
        let segment = Segment {
            address: self.address(),
            total_size: self.size(),
            allocated_size: sum(&|b| if b.state == BlockState::ActiveAllocated { b.size } else { 0 }),
            active_size: sum(&|b| if b.state.is_active() { b.size } else { 0 }),
            requested_size: sum(&|b| if b.state.is_active() { b.requested_size } else { 0 }),
            stream: self.arena.stream,
            kind: self.class.into(),
            pool: Some(self.arena.pool),
            is_expandable: Some(self.expandable),
            stack: None,
            forward_frames: None,
            blocks: 0..0,
        };
        (segment, blocks)
    }
}

impl<Stack> BlockLayout<Stack> {
    fn without_stack(&self) -> Block {
        Block {
            address: self.address,
            size: self.size,
            requested_size: self.requested,
            state: self.state,
            stack: None,
            forward_frames: None,
            user_metadata: None,
        }
    }
}
