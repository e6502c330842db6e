//! What lies where at one moment: reserved ranges, active blocks and the free blocks between them.

use vramscope_trace::{PoolId, SegmentKind};

use crate::history::{Allocation, History};
use crate::moment::Moment;
use crate::segments::ReservedRange;

/// The device's reserved memory at one moment.
#[derive(Debug, Clone)]
pub struct Layout<'h> {
    /// Reserved ranges by address.
    ranges: Vec<&'h ReservedRange>,
    /// Active allocations by address.
    active: Vec<&'h Allocation>,
}

/// A piece of reserved memory that no active block uses.
///
/// ```text
///   segment  [ block | free | block | free      ]
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeBlock {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// The only stream that can use it.
    pub stream: u64,
    /// Whether it serves small or large requests.
    pub kind: SegmentKind,
    /// The private pool it belongs to, where known.
    pub pool: Option<PoolId>,
    /// A whole segment: what the allocator can give back to the device.
    pub whole_segment: bool,
}

impl<'h> Layout<'h> {
    /// The layout at `moment`.
    pub fn at(history: &'h History<'_>, moment: Moment) -> Self {
        let ranges = history.reserved.iter().filter(|r| r.lives_at(moment)).collect();
        let mut active: Vec<_> = history.allocations.iter().filter(|a| a.is_active_at(moment)).collect();
        active.sort_by_key(|a| a.address);
        Self { ranges, active }
    }

    /// The range that holds `address`.
    pub fn range_around(&self, address: u64) -> Option<&'h ReservedRange> {
        let i = self.ranges.partition_point(|r| r.address <= address).checked_sub(1)?;
        Some(self.ranges[i]).filter(|r| address < r.end())
    }

    /// Every free block, by address. Pieces of an expandable segment that touch count as one range.
    pub fn free_blocks(&self) -> Vec<FreeBlock> {
        let mut out = Vec::new();
        let mut active = self.active.iter().copied().peekable();
        let mut ranges = self.ranges.iter().copied().peekable();
        while let Some(range) = ranges.next() {
            let mut end = range.end();
            while range.expandable
                && let Some(next) =
                    ranges.next_if(|n| n.expandable && n.address == end && n.stream == range.stream)
            {
                end = next.end();
            }
            let mut at = range.address;
            let mut free = |from: u64, to: u64| {
                if from < to {
                    out.push(FreeBlock {
                        address: from,
                        size: to - from,
                        stream: range.stream,
                        kind: range.kind,
                        pool: range.pool,
                        whole_segment: from == range.address && to == end && !range.expandable,
                    });
                }
            };
            while let Some(a) = active.next_if(|a| a.address < end) {
                free(at, a.address);
                at = at.max(a.address.saturating_add(a.size));
            }
            free(at, end);
        }
        out
    }
}
