//! The allocator's state at a moment, in the form of a snapshot.

use hashbrown::HashMap;
use vramscope_trace::{Block, BlockState, Segment, StringId};

use super::allocations::{History, Origin, RecordedAllocation};
use super::layout::Layout;
use super::moment::Moment;

impl History {
    /// Returns the segments and their blocks at `moment`, in address order, as a snapshot taken at that moment has them. An active block
    /// outside of all segments is not included.
    ///
    /// The stack of a block is that of its allocation: `None` if only its free was recorded.
    pub fn state_at(&self, moment: Moment) -> (Vec<Segment>, Vec<Block>) {
        let texts = self.texts_of_blocks();
        let layout = Layout::at(self, moment);
        let (mut segments, mut blocks) = (Vec::new(), Vec::new());
        for (ranges, active) in layout.ranges_with_active() {
            let (Some(first_range), Some(last_range)) = (ranges.first(), ranges.last()) else { continue };
            let (start, end) = (first_range.address, last_range.end());
            let (first, mut next) = (blocks.len(), start);
            let (mut allocated_size, mut active_size, mut requested_size) = (0, 0, 0u64);
            for a in active {
                let Some(block_end) = a.address.checked_add(a.size) else { continue };
                // Contradictory recordings have blocks that overlap.
                if a.address < next || block_end > end || a.size == 0 {
                    continue;
                }
                blocks.extend(Block::free_between(next, a.address));
                active_size += a.size;
                allocated_size += if a.is_allocated_at(moment) { a.size } else { 0 };
                requested_size = requested_size.saturating_add(a.requested);
                blocks.push(self.block(a, moment, &texts));
                next = block_end;
            }
            blocks.extend(Block::free_between(next, end));
            segments.push(Segment {
                address: start,
                total_size: end - start,
                allocated_size: Some(allocated_size),
                active_size: Some(active_size),
                requested_size: Some(requested_size),
                stream: first_range.stream,
                kind: first_range.kind,
                pool: first_range.pool,
                is_expandable: Some(first_range.expandable),
                stack: first_range.stack,
                forward_frames: None,
                blocks: first..blocks.len(),
            });
        }
        (segments, blocks)
    }

    /// Returns the block of an allocation that is active at `moment`.
    fn block(&self, a: &RecordedAllocation, moment: Moment, texts: &HashMap<u64, StringId>) -> Block {
        let user_metadata = match (a.origin, a.tags) {
            (Origin::Recorded, Some(tags)) => self.trace().tags.get(tags).user_metadata,
            (Origin::EndState, _) => texts.get(&a.address).copied(),
            _ => None,
        };
        let is_allocated = a.is_allocated_at(moment);
        Block {
            address: a.address,
            size: a.size,
            requested_size: a.requested,
            state: if is_allocated { BlockState::ActiveAllocated } else { BlockState::ActivePendingFree },
            stack: a.stack.filter(|_| a.origin != Origin::FreeOnly),
            forward_frames: None,
            user_metadata,
        }
    }

    /// The metadata of the blocks of the end state, by address.
    fn texts_of_blocks(&self) -> HashMap<u64, StringId> {
        let blocks = self.device().recorded_blocks().filter(|b| b.state.is_active());
        blocks.filter_map(|b| Some((b.address, b.user_metadata?))).collect()
    }
}
