//! The layout of reserved memory at one moment: reserved ranges, active blocks and the free blocks between them.

use std::ops::Range;

use vramscope_basics::count_steps;
use vramscope_trace::{PoolId, SegmentKind};

use super::allocations::{History, RecordedAllocation};
use super::counters::Counters;
use super::moment::Moment;
use super::segments::ReservedRange;

/// The device's reserved memory at one moment.
#[derive(Debug, Clone)]
pub struct Layout<'h> {
    moment: Moment,
    /// Every allocation of the history.
    allocations: &'h [RecordedAllocation],
    /// The reserved ranges, by address.
    ranges: Vec<&'h ReservedRange>,
    /// Indices of the active allocations, by address.
    active: Vec<u32>,
}

/// A free block: a range of reserved memory that no active block uses.
///
/// ```text
///   segment  [ block | free | block | free      ]
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeBlock {
    /// Device address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// The only stream that can use it.
    pub stream: u64,
    /// Whether the block serves small or large requests.
    pub kind: SegmentKind,
    /// The private pool of the block, if known.
    pub pool: Option<PoolId>,
    /// The block is a whole segment, which the allocator can release to the device.
    pub whole_segment: bool,
}

impl FreeBlock {
    /// Whether the block has the byte at `address`.
    pub fn contains(&self, address: u64) -> bool {
        self.address <= address && address - self.address < self.size
    }
}

impl<'h> Layout<'h> {
    /// Returns the layout at `moment`.
    pub fn at(history: &'h History, moment: Moment) -> Self {
        let [layout] = Self::at_each(history, [moment]);
        layout
    }

    /// Returns the layout at `moment` from the known indices of the ranges that are reserved and of the allocations that are
    /// active at that moment.
    pub fn of_known(history: &'h History, moment: Moment, ranges: &[u32], mut active: Vec<u32>) -> Self {
        let allocations = history.allocations.as_slice();
        let mut ranges: Vec<_> = ranges.iter().map(|&id| &history.reserved[id as usize]).collect();
        ranges.sort_by_key(|r| r.address);
        active.sort_unstable_by_key(|&id| (allocations[id as usize].address, id));
        Self { moment, allocations, ranges, active }
    }

    /// Returns the layouts at a few moments. Every allocation is read only once.
    pub(crate) fn at_each<const N: usize>(history: &'h History, moments: [Moment; N]) -> [Self; N] {
        let allocations = history.allocations.as_slice();
        let mut layouts = moments.map(|moment| {
            let ranges = history.reserved.iter().filter(|r| r.lives_at(moment)).collect();
            Self { moment, allocations, ranges, active: Vec::new() }
        });
        count_steps(allocations.len() + history.reserved.len());
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

    /// Returns the layout without the blocks that are freed and wait for another stream.
    #[must_use]
    pub(crate) fn once_waited(&self) -> Self {
        let is_allocated = |&&id: &&u32| self.allocations[id as usize].is_allocated_at(self.moment);
        Self { active: self.active.iter().filter(is_allocated).copied().collect(), ..self.clone() }
    }

    /// The moment of this layout.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// The active allocations, by address.
    pub fn active(&self) -> impl Iterator<Item = &'h RecordedAllocation> {
        self.active.iter().map(|&id| &self.allocations[id as usize])
    }

    /// The active allocations that are still allocated, by address.
    pub fn allocated(&self) -> impl Iterator<Item = &'h RecordedAllocation> {
        self.active().filter(|a| a.is_allocated_at(self.moment))
    }

    /// The indices of these allocations in [`History::allocations`].
    pub(crate) fn allocated_ids(&self) -> impl Iterator<Item = usize> {
        let ids = self.active.iter().map(|&id| id as usize);
        ids.filter(|&id| self.allocations[id].is_allocated_at(self.moment))
    }

    /// Returns the four byte counters at this moment.
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

    /// Returns the reserved range that contains `address`.
    pub fn range_around(&self, address: u64) -> Option<&'h ReservedRange> {
        let i = self.ranges.partition_point(|r| r.address <= address).checked_sub(1)?;
        Some(self.ranges[i]).filter(|r| address < r.end())
    }

    /// Returns all free blocks, by address. Adjacent ranges of an expandable segment count as one range.
    pub fn free_blocks(&self) -> Vec<FreeBlock> {
        self.holes().into_iter().map(|hole| hole.free).collect()
    }

    /// Returns all free blocks with their neighboring active blocks, by address.
    pub fn holes(&self) -> Vec<Hole> {
        let mut holes = Vec::new();
        for Extent { ranges, active } in self.extents() {
            let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { continue };
            let (start, end) = (first.address, last.end());
            let mut at = start;
            let mut before = None;
            let ends = active.iter().map(|&id| Some(id)).chain([None]);
            for after in ends {
                let block = after.map(|id| &self.allocations[id as usize]);
                let to = block.map_or(end, |block| block.address);
                if at < to {
                    let whole_segment = at == start && to == end && !first.expandable;
                    let free = FreeBlock {
                        address: at,
                        size: to - at,
                        stream: first.stream,
                        kind: first.kind,
                        pool: first.pool,
                        whole_segment,
                    };
                    holes.push(Hole { free, before, after });
                }
                at = block.map_or(end, |block| at.max(block.address.saturating_add(block.size)));
                before = after;
            }
        }
        holes
    }

    /// Returns the reserved ranges, with adjacent ranges of one expandable segment joined, and the active allocations in each.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Range<u64>, Vec<&'h RecordedAllocation>)> {
        self.extents().filter_map(|Extent { ranges, active }| {
            let addresses = ranges.first()?.address..ranges.last()?.end();
            Some((addresses, active.iter().map(|&id| &self.allocations[id as usize]).collect()))
        })
    }

    /// The adjacent ranges of each segment, and the active allocations in them, by address.
    pub(super) fn ranges_with_active(
        &self,
    ) -> impl Iterator<Item = (&[&'h ReservedRange], impl Iterator<Item = &'h RecordedAllocation>)> {
        let allocations = self.allocations;
        self.extents().map(move |Extent { ranges, active }| {
            (ranges, active.iter().map(move |&id| &allocations[id as usize]))
        })
    }

    /// The reserved ranges, with adjacent ranges of one expandable segment joined, and the active allocations in each.
    fn extents(&self) -> impl Iterator<Item = Extent<'_, 'h>> {
        let mut active = self.active.as_slice();
        let continues = |before: &&ReservedRange, next: &&ReservedRange| {
            next.expandable
                && before.expandable
                && before.end() == next.address
                && before.stream == next.stream
        };
        self.ranges.chunk_by(continues).map(move |ranges| {
            let end = ranges.last().map_or(0, |r| r.end());
            let inside = active.partition_point(|&id| self.allocations[id as usize].address < end);
            let (here, later) = active.split_at(inside);
            active = later;
            Extent { ranges, active: here }
        })
    }
}

/// Adjacent ranges, with the indices of the active allocations in them, by address.
struct Extent<'l, 'h> {
    ranges: &'l [&'h ReservedRange],
    active: &'l [u32],
}

/// A free block and its neighboring active blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// The free block.
    pub free: FreeBlock,
    /// The index of the allocation before it in its segment; `None` if the segment starts with the free block.
    pub before: Option<u32>,
    /// The index of the allocation after it; `None` if the segment ends with the free block.
    pub after: Option<u32>,
}

impl Hole {
    /// Returns the moment since which the whole block is free, seen from `moment`. This is the moment at which the last
    /// allocation in this range became available, with the index of that allocation, or the moment at which the last range was
    /// reserved.
    pub fn free_since(&self, history: &History, moment: Moment) -> (Moment, Option<u32>) {
        let FreeBlock { address, size, .. } = self.free;
        let end = address.saturating_add(size);
        let touches = |from: u64, bytes: u64| from < end && address < from.saturating_add(bytes);
        let ranges = history.reserved.iter().filter(|r| r.lives_at(moment) && touches(r.address, r.size));
        let reserved = ranges.map(|r| r.from).max().unwrap_or(Moment::START);
        let gone =
            (0..).zip(&history.allocations).filter(|(_, a)| a.to <= moment && touches(a.address, a.size));
        let last = gone.max_by_key(|(_, a)| a.to).filter(|(_, a)| a.to > reserved);
        last.map_or((reserved, None), |(id, a)| (a.to, Some(id)))
    }
}
