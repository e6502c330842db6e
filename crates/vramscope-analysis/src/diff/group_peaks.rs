//! The peak of each group of allocations by itself, in two recordings. This compares a line with itself, independent of other
//! memory that is live at the device's peak.

use std::cmp::Reverse;

use vramscope_trace::Trace;

use super::holder_changes::{HolderChange, HoldersOf, IsMarked, Matched, matched_holders};
use crate::basics::{Both, Side};
use crate::groups::{AllocationProperties, Amount, By, Grouping, Holder};
use crate::history::{History, Interval, LifetimeChange, LifetimeChanges, Moment, RecordedAllocation};
use crate::stacks::Frames;
use vramscope_basics::Cancel;

/// The part of a recording in which the peak of each group is determined.
#[derive(Debug)]
pub struct GroupsInInterval<'h, K> {
    /// The device's history.
    pub history: &'h History,
    /// The classification of the recording's frames.
    pub frames: &'h Frames,
    /// Known properties of the allocations.
    pub known: &'h K,
    /// The interval.
    pub interval: Interval,
}

/// A group at its own peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPeakChange {
    /// The group, with its bytes at its peak in each recording.
    pub group: HolderChange,
    /// The first moment of the peak in each recording.
    pub moments: Both<Option<Moment>>,
}

/// Returns the groups of an interval in each of two recordings, each at its own peak, largest growth first. Lines are matched as
/// in [`holders_of_both`](crate::holders_of_both). Returns `None` if cancelled.
pub fn group_peaks_of_both<K: AllocationProperties>(
    of: Both<GroupsInInterval<'_, K>>,
    by: By,
    marked: IsMarked<'_>,
    cancel: &Cancel,
) -> Option<Vec<GroupPeakChange>> {
    let parted = Both { a: IntervalParts::of(of.a, by, cancel)?, b: IntervalParts::of(of.b, by, cancel)? };
    let holders = |side: Side| parted.of(side).holders();
    let Matched { mut changes, change_of } =
        matched_holders(&Both { a: holders(Side::A), b: holders(Side::B) }, marked);
    let mut moments = vec![Both { a: None, b: None }; changes.len()];
    for side in Side::BOTH {
        let (of, change_of) = (parted.of(side), change_of.of(side));
        let highest = of.highest(&|part| change_of[of.group_of[part]], changes.len(), cancel)?;
        for (number, (amount, moment)) in highest.into_iter().enumerate() {
            if let Some(holder) = changes[number].holders.of_mut(side) {
                let Amount { bytes, requested, count } = amount;
                *holder = Holder { bytes, requested, count, ..holder.clone() };
                *moments[number].of_mut(side) = Some(moment);
            }
        }
    }
    let together = changes.into_iter().zip(moments);
    let mut all: Vec<_> = together.map(|(group, moments)| GroupPeakChange { group, moments }).collect();
    all.sort_by_key(|change| Reverse(change.group.held().map(|held| held.bytes).difference()));
    Some(all)
}

/// The allocations of an interval, divided into parts of groups.
struct IntervalParts<'h> {
    history: &'h History,
    frames: &'h Frames,
    interval: Interval,
    /// The part of each allocation.
    parts: Vec<u32>,
    group_of: Vec<usize>,
    groups: Vec<Holder>,
}

impl<'h> IntervalParts<'h> {
    fn of(within: GroupsInInterval<'h, impl AllocationProperties>, by: By, cancel: &Cancel) -> Option<Self> {
        let GroupsInInterval { history, frames, known, interval } = within;
        let mut parts = Grouping::of(history, known, by, interval.allocations.len());
        let mut made: Vec<u64> = Vec::new();
        let mut of_allocation = Vec::with_capacity(interval.allocations.len());
        for (step, &id) in interval.allocations.iter().enumerate() {
            if cancel.is_cancelled_at(step) {
                return None;
            }
            let a = &history.allocations[id as usize];
            let part = parts.part(id as usize, a);
            if part == made.len() {
                made.push(0);
            }
            made[part] += a.size;
            of_allocation.push(part as u32);
        }
        // A group is named by its stack that allocates most.
        let parted = parts.grouped(frames, |part| Reverse(made[part]));
        Some(Self {
            history,
            frames,
            interval,
            parts: of_allocation,
            group_of: parted.of_part,
            groups: parted.groups,
        })
    }

    fn trace(&self) -> &'h Trace {
        self.history.trace()
    }

    fn holders(&self) -> HoldersOf<'h> {
        HoldersOf { trace: self.trace(), frames: self.frames, holders: self.groups.clone() }
    }

    /// Returns the peak of each of `rows` and its first moment. `row_of` maps a part to its row.
    fn highest(
        &self,
        row_of: &dyn Fn(usize) -> usize,
        rows: usize,
        cancel: &Cancel,
    ) -> Option<Vec<(Amount, Moment)>> {
        let Self { history, interval, .. } = self;
        let rows_of_parts: Vec<usize> = (0..self.group_of.len()).map(row_of).collect();
        let allocation = |number: u32| -> &RecordedAllocation {
            &history.allocations[interval.allocations[number as usize] as usize]
        };
        let numbers = 0..interval.allocations.len() as u32;
        let changes = LifetimeChanges::of(numbers.map(|number| {
            let a = allocation(number);
            // Frees after the interval do not count.
            let freed = if a.freed <= interval.to { a.freed } else { Moment::NEVER };
            (a.from.max(interval.from), freed, number)
        }));
        let mut now = vec![Amount::default(); rows];
        let mut highest = vec![(Amount::default(), interval.from); rows];
        for (step, (at, change, number)) in changes.enumerate() {
            if cancel.is_cancelled_at(step) {
                return None;
            }
            let a = allocation(number);
            let row = rows_of_parts[self.parts[number as usize] as usize];
            let one = a.amount();
            match change {
                LifetimeChange::Ends => now[row] = now[row].minus(one),
                LifetimeChange::Begins => {
                    now[row].add(one);
                    // At one moment, ends come before begins, so the last begin sees the whole sum.
                    let (amount, moment) = &mut highest[row];
                    if now[row].bytes > amount.bytes {
                        (*amount, *moment) = (now[row], at);
                    }
                }
            }
        }
        Some(highest)
    }
}
