//! Totals of an interval of a recording, in groups: bytes allocated, freed, temporary and retained.

use std::cmp::Reverse;

use hashbrown::HashMap;
use vramscope_trace::StackId;

use super::amount::Amount;
use super::grouping::{Grouped, Grouping};
use super::keys::{By, Holder, HolderKey};
use super::properties::AllocationProperties;
use crate::history::{History, Interval, Origin, RecordedAllocation};
use crate::stacks::Frames;
use vramscope_basics::Cancel;

/// The totals of some allocations in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IntervalTotals {
    /// Allocated at the start of the interval.
    pub before: Amount,
    /// Allocated in the interval.
    pub allocated: Amount,
    /// Allocated before the interval and freed in it.
    pub freed_before: Amount,
    /// Both allocated and freed in the interval.
    pub temporary: Amount,
    /// Allocated at the device's peak in the interval.
    pub at_peak: Amount,
}

impl IntervalTotals {
    /// Returns all memory freed in the interval.
    #[must_use]
    pub fn freed(&self) -> Amount {
        self.freed_before.plus(self.temporary)
    }

    /// Returns memory that was allocated in the interval and is still allocated at its end.
    #[must_use]
    pub fn survived(&self) -> Amount {
        self.allocated.minus(self.temporary)
    }

    /// Returns memory allocated at the end of the interval.
    #[must_use]
    pub fn after(&self) -> Amount {
        self.before.minus(self.freed_before).plus(self.survived())
    }

    fn add(&mut self, other: &Self) {
        self.before.add(other.before);
        self.allocated.add(other.allocated);
        self.freed_before.add(other.freed_before);
        self.temporary.add(other.temporary);
        self.at_peak.add(other.at_peak);
    }

    /// Adds one allocation of the interval.
    #[inline]
    fn take(&mut self, a: &RecordedAllocation, interval: &Interval) {
        let one = a.amount();
        let was_there = a.from <= interval.from;
        let is_gone = a.freed <= interval.to;
        let of = if was_there { &mut self.before } else { &mut self.allocated };
        of.add(one);
        if is_gone {
            let of = if was_there { &mut self.freed_before } else { &mut self.temporary };
            of.add(one);
        }
        if a.is_allocated_at(interval.peak.moment) {
            self.at_peak.add(one);
        }
    }
}

/// The totals of a group of allocations in an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalGroup {
    /// The origin of the allocations, as in a [`Holder`](crate::Holder).
    pub origin: Option<Origin>,
    /// The property that the allocations share.
    pub key: HolderKey,
    /// The stack that allocated most in the interval; if nothing was allocated, the one that held most.
    pub stack: Option<StackId>,
    /// The totals of the group.
    pub totals: IntervalTotals,
}

/// The totals of an interval, and of its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalGroups {
    /// The sums over all allocations.
    pub all: IntervalTotals,
    /// The sums over the allocations that the filter accepts.
    pub taken: IntervalTotals,
    /// The groups of these allocations, most allocated bytes first.
    pub groups: Vec<IntervalGroup>,
}

/// Returns the totals of an interval of `history`, in groups of the allocations whose index `takes` accepts. Returns `None` if
/// cancelled.
pub fn interval_groups(
    history: &History,
    frames: &Frames,
    known: &impl AllocationProperties,
    interval: &Interval,
    by: By,
    takes: &dyn Fn(usize) -> bool,
    cancel: &Cancel,
) -> Option<IntervalGroups> {
    let mut parts = Grouping::of(history, known, by, interval.allocations.len());
    let mut totals: Vec<IntervalTotals> = Vec::new();
    let mut left_out = IntervalTotals::default();
    for (step, &id) in interval.allocations.iter().enumerate() {
        if cancel.is_cancelled_at(step) {
            return None;
        }
        let a = &history.allocations[id as usize];
        if !takes(id as usize) {
            left_out.take(a, interval);
            continue;
        }
        let part = parts.part(id as usize, a);
        if part == totals.len() {
            totals.push(IntervalTotals::default());
        }
        totals[part].take(a, interval);
    }
    let groups = groups(parts, frames, &totals);
    let mut taken = IntervalTotals::default();
    groups.iter().for_each(|group| taken.add(&group.totals));
    let mut all = taken;
    all.add(&left_out);
    Some(IntervalGroups { all, taken, groups })
}

/// Returns the groups, most allocated bytes first. Each group's stack is that of its largest part.
fn groups(
    parts: Grouping<'_, impl AllocationProperties>,
    frames: &Frames,
    totals: &[IntervalTotals],
) -> Vec<IntervalGroup> {
    let Grouped { groups, of_part } = parts.grouped(frames, |part| order(&totals[part]));
    let empty = |Holder { origin, key, stack, .. }| IntervalGroup {
        origin,
        key,
        stack,
        totals: IntervalTotals::default(),
    };
    let mut groups: Vec<IntervalGroup> = groups.into_iter().map(empty).collect();
    for (totals, group) in totals.iter().zip(of_part) {
        groups[group].totals.add(totals);
    }
    groups.sort_by(|a, b| {
        order(&a.totals).cmp(&order(&b.totals)).then_with(|| (a.origin, &a.key).cmp(&(b.origin, &b.key)))
    });
    groups
}

/// Sort key: most allocated bytes first; then most held bytes.
fn order(totals: &IntervalTotals) -> (Reverse<u64>, Reverse<u64>, Reverse<u64>) {
    (Reverse(totals.allocated.bytes), Reverse(totals.at_peak.bytes), Reverse(totals.before.bytes))
}

/// A group in an interval, compared with an earlier interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalGroupChange {
    /// The group, with its name from the later interval if it exists there.
    pub group: IntervalGroup,
    /// The totals in the earlier interval.
    pub before: IntervalTotals,
}

/// Compares groups of an interval with those of an earlier one. The largest increase of allocated bytes comes first, the largest
/// decrease last.
#[must_use]
pub fn interval_group_changes(
    now: Vec<IntervalGroup>,
    before: Vec<IntervalGroup>,
) -> Vec<IntervalGroupChange> {
    let shared = |group: &IntervalGroup| (group.origin, group.key.clone());
    let index: HashMap<_, usize> = now.iter().enumerate().map(|(i, group)| (shared(group), i)).collect();
    let mut changes: Vec<IntervalGroupChange> = now
        .into_iter()
        .map(|group| IntervalGroupChange { group, before: IntervalTotals::default() })
        .collect();
    for group in before {
        match index.get(&shared(&group)) {
            Some(&i) => changes[i].before = group.totals,
            None => {
                let before = group.totals;
                changes.push(IntervalGroupChange {
                    group: IntervalGroup { totals: IntervalTotals::default(), ..group },
                    before,
                });
            }
        }
    }
    let grown = |change: &IntervalGroupChange| {
        i128::from(change.group.totals.allocated.bytes) - i128::from(change.before.allocated.bytes)
    };
    changes.sort_by_key(|change| Reverse(grown(change)));
    changes
}
