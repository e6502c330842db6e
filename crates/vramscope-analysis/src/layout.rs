//! What lies where at one moment: reserved ranges, active blocks and the free blocks between them.

use vramscope_trace::{PoolId, SegmentKind};

use crate::counters::Counters;
use crate::history::{Allocation, History};
use crate::moment::Moment;
use crate::segments::ReservedRange;

/// The device's reserved memory at one moment.
#[derive(Debug, Clone)]
pub struct Layout<'h> {
    moment: Moment,
    /// Every allocation of the history.
    allocations: &'h [Allocation],
    /// Reserved ranges by address.
    ranges: Vec<&'h ReservedRange>,
    /// Numbers of the active allocations, by address.
    active: Vec<u32>,
}

/// A piece of reserved memory that no active block uses.
///
/// ```text
///   segment  [ block | free | block | free      ]
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeBlock {
    /// Address of its first byte.
    pub address: u64,
    /// How many bytes it has.
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
    pub fn at(history: &'h History, moment: Moment) -> Self {
        let [layout] = Self::at_each(history, [moment]);
        layout
    }

    /// The layouts at some few moments, for the price of one: every allocation is looked at once.
    pub(crate) fn at_each<const N: usize>(history: &'h History, moments: [Moment; N]) -> [Self; N] {
        let allocations = history.allocations.as_slice();
        let mut layouts = moments.map(|moment| {
            let ranges = history.reserved.iter().filter(|r| r.lives_at(moment)).collect();
            Self { moment, allocations, ranges, active: Vec::new() }
        });
        for (id, a) in (0..).zip(allocations) {
            for layout in layouts.iter_mut().filter(|l| a.is_active_at(l.moment)) {
                layout.active.push(id);
            }
        }
        for layout in &mut layouts {
            layout.active.sort_unstable_by_key(|&id| (allocations[id as usize].address, id));
        }
        layouts
    }

    /// The moment of this layout.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// The active allocations, in order of address.
    pub fn active(&self) -> impl Iterator<Item = &'h Allocation> {
        self.active.iter().map(|&id| &self.allocations[id as usize])
    }

    /// Those of the active allocations that are allocated, in order of address.
    pub fn allocated(&self) -> impl Iterator<Item = &'h Allocation> {
        self.active().filter(|a| a.is_allocated_at(self.moment))
    }

    /// The four kinds of bytes at this moment.
    pub fn counters(&self) -> Counters {
        let mut c = Counters::default();
        for a in self.active() {
            c.active += a.size;
            c.requested += a.requested;
            if a.is_allocated_at(self.moment) {
                c.allocated += a.size;
            }
        }
        c.reserved = self.ranges.iter().map(|r| r.size).sum();
        c
    }

    /// The range that holds `address`.
    pub fn range_around(&self, address: u64) -> Option<&'h ReservedRange> {
        let i = self.ranges.partition_point(|r| r.address <= address).checked_sub(1)?;
        Some(self.ranges[i]).filter(|r| address < r.end())
    }

    /// Every free block, by address. Pieces of an expandable segment that touch count as one range.
    pub fn free_blocks(&self) -> Vec<FreeBlock> {
        let mut out = Vec::new();
        let mut active = self.active().peekable();
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
