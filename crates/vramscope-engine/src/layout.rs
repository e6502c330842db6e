//! The segments and blocks of an engine, as a snapshot shows them.

use vramscope_trace::{Block, BlockState, Segment};

use crate::arena_key::ArenaKey;
use crate::policy::Class;

/// A segment with its blocks, or one run of mapped addresses of an expandable segment.
#[derive(Debug, Clone)]
pub struct SegmentLayout<Stack> {
    /// The pool and stream of the segment.
    pub arena: ArenaKey,
    /// Whether the segment serves small or large requests.
    pub class: Class,
    /// Whether the segment grows by mapping pages into reserved addresses.
    pub expandable: bool,
    /// Stack of the request for which the segment was taken from the device.
    pub stack: Option<Stack>,
    /// The blocks in address order, without gaps.
    pub blocks: Vec<BlockLayout<Stack>>,
}

/// A block of a segment. Free blocks are inactive, and so are blocks held for a request in progress.
#[derive(Debug, Clone, Copy)]
pub struct BlockLayout<Stack> {
    /// Address of the first byte on the device.
    pub address: u64,
    /// Size of the block in bytes.
    pub size: u64,
    /// Bytes requested by the current or last owner.
    pub requested: u64,
    /// State of the block, in PyTorch's terms.
    pub state: BlockState,
    /// Stack of the request, while the block is in use.
    pub stack: Option<Stack>,
}

impl<Stack> SegmentLayout<Stack> {
    /// Returns the address of the first byte on the device.
    pub fn address(&self) -> u64 {
        self.blocks.first().map_or(0, |block| block.address)
    }

    /// Total bytes of the blocks.
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(|block| block.size).sum()
    }

    /// Returns the segment and its blocks as part of a trace, without stacks.
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
