//! What lies in an engine's segments, as a snapshot shows it.

use vramscope_trace::{Block, BlockState, Segment};

use crate::arena_key::ArenaKey;
use crate::policy::Class;

/// A segment and its blocks at one moment; of an expandable segment, a run of mapped addresses.
#[derive(Debug, Clone)]
pub struct SegmentLayout<Stack> {
    /// The pool and stream that it serves.
    pub arena: ArenaKey,
    /// Which requests it serves.
    pub class: Class,
    /// It grows by mapping pages into reserved addresses.
    pub expandable: bool,
    /// Where it was taken from the device.
    pub stack: Option<Stack>,
    /// Its blocks in address order, without gaps.
    pub blocks: Vec<BlockLayout<Stack>>,
}

/// A block of a segment. Free ones, and one that a request under way has not got yet, are inactive.
#[derive(Debug, Clone, Copy)]
pub struct BlockLayout<Stack> {
    /// First byte on the device.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes that its present or last user asked for.
    pub requested: u64,
    /// In PyTorch's words.
    pub state: BlockState,
    /// Where it was asked for, while it is in use.
    pub stack: Option<Stack>,
}

impl<Stack> SegmentLayout<Stack> {
    /// First byte on the device.
    pub fn address(&self) -> u64 {
        self.blocks.first().map_or(0, |block| block.address)
    }

    /// Bytes, of all blocks.
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
        }
    }
}
