//! [`Held`]: the allocator's segments and blocks on one device while events are replayed.

use std::collections::BTreeMap;

use crate::end_state::{Block, BlockState, Segment, SegmentKind};
use crate::events::PoolId;
use crate::ids::StackId;
use crate::trace::DeviceTrace;

/// A [`Segment`] without the values that are computed at the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldSegment {
    /// Size in bytes.
    pub(super) size: u64,
    pub(super) stream: u64,
    pub(super) pool: Option<PoolId>,
    pub(super) kind: SegmentKind,
    pub(super) is_expandable: bool,
    pub(super) stack: Option<StackId>,
}

/// Segments and active blocks by address. Segments do not overlap each other, nor do blocks. None is empty, and none ends beyond the
/// last address. A later event overrides earlier ones that contradict it.
#[derive(Debug, Default)]
pub(super) struct Held {
    segments: BTreeMap<u64, HeldSegment>,
    blocks: BTreeMap<u64, Block>,
}

impl Held {
    /// Adds a segment taken from the device, or a mapped range. A mapped range merges with adjacent ranges of its expandable segment.
    pub(super) fn take(&mut self, mut address: u64, mut held: HeldSegment) {
        let Some(end) = end_of(address, held.size) else { return };
        self.release(address, held.size);
        let joins = |s: &HeldSegment| {
            s.is_expandable && held.is_expandable && (s.stream, s.pool) == (held.stream, held.pool)
        };
        let before = self.segments.range(..address).next_back().map(|(&start, &s)| (start, s));
        let before = before.filter(|(start, s)| start + s.size == address && joins(s));
        let after = self.segments.get(&end).copied().filter(joins);
        if let Some(after) = after {
            self.segments.remove(&end);
            held.size += after.size;
        }
        if let Some((start, before)) = before {
            (address, held) = (start, HeldSegment { size: before.size + held.size, ..before });
        }
        self.segments.insert(address, held);
    }

    /// Removes a range released to the device, with its blocks.
    pub(super) fn release(&mut self, address: u64, size: u64) {
        let Some(end) = end_of(address, size) else { return };
        while let Some((&start, &s)) = self.segments.range(..end).next_back() {
            let s_end = start + s.size;
            if s_end <= address {
                break;
            }
            self.segments.remove(&start);
            if s_end > end {
                self.segments.insert(end, HeldSegment { size: s_end - end, ..s });
            }
            if start < address {
                self.segments.insert(start, HeldSegment { size: address - start, ..s });
            }
        }
        self.forget_blocks(address, end);
    }

    /// Adds an allocated block.
    pub(super) fn allocate(&mut self, block: Block) {
        let Some(end) = end_of(block.address, block.size) else { return };
        self.forget_blocks(block.address, end);
        self.blocks.insert(block.address, block);
    }

    /// Marks a block as freed by its owner.
    pub(super) fn request_free(&mut self, address: u64) {
        if let Some(block) = self.blocks.get_mut(&address) {
            block.state = BlockState::ActivePendingFree;
        }
    }

    /// Removes a block that is available again.
    pub(super) fn free(&mut self, address: u64) {
        self.blocks.remove(&address);
    }

    fn forget_blocks(&mut self, address: u64, end: u64) {
        while let Some((&start, b)) = self.blocks.range(..end).next_back() {
            if start + b.size <= address {
                break;
            }
            self.blocks.remove(&start);
        }
    }

    /// Returns the number of segments.
    pub(super) fn num_segments(&self) -> usize {
        self.segments.len()
    }

    /// Approximate memory use in bytes, now and while it becomes a trace. Map entries take about twice their size.
    pub(super) fn memory(&self) -> usize {
        3 * (self.segments.len() * size_of::<(u64, HeldSegment)>()
            + self.blocks.len() * size_of::<(u64, Block)>())
    }

    /// Moves everything into `device`, with free blocks in the gaps. Blocks outside the segments are dropped.
    pub(super) fn finish(self, device: &mut DeviceTrace) {
        let mut active = self.blocks.into_values().peekable();
        for (address, held) in self.segments {
            let (mut allocated_size, mut active_size, mut requested_size) = (0, 0, 0u64);
            let (first, end) = (device.blocks.len(), address + held.size);
            let mut next = address;
            while let Some(block) = active.next_if(|b| b.address < end) {
                let block_end = block.address + block.size;
                if block.address < next || block_end > end {
                    continue;
                }
                device.blocks.extend(Block::free_between(next, block.address));
                active_size += block.size;
                if block.state == BlockState::ActiveAllocated {
                    allocated_size += block.size;
                }
                requested_size = requested_size.saturating_add(block.requested_size);
                device.blocks.push(block);
                next = block_end;
            }
            device.blocks.extend(Block::free_between(next, end));
            device.segments.push(Segment {
                address,
                total_size: held.size,
                allocated_size: Some(allocated_size),
                active_size: Some(active_size),
                requested_size: Some(requested_size),
                stream: held.stream,
                kind: held.kind,
                pool: held.pool,
                is_expandable: Some(held.is_expandable),
                stack: held.stack,
                forward_frames: None,
                blocks: first..device.blocks.len(),
            });
        }
    }
}

/// End address of a range; `None` if the range is empty or ends beyond the last address.
fn end_of(address: u64, size: u64) -> Option<u64> {
    address.checked_add(size).filter(|_| size > 0)
}

#[cfg(test)]
mod tests;
