//! The effects of an interval of a recording on the allocated bytes, in groups: memory allocated, freed, temporary and retained.

use std::cmp::Reverse;

use hashbrown::HashMap;
use vramscope_trace::StackId;

use super::amount::Amount;
use super::grouping::{Group, Parted, Parts};
use super::holders::{By, HolderKey, Known};
use crate::basics::Cancel;
use crate::history::{Allocation, History, Origin, Stretch};
use crate::stacks::Frames;

/// The effects of an interval on some allocations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Allocated at the start of the interval.
    pub before: Amount,
    /// Allocated in the interval.
    pub allocated: Amount,
    /// Allocated before the interval and freed in it.
    pub freed_before: Amount,
    /// Both allocated and freed in the interval.
    pub temporary: Amount,
    /// Allocated at the device's peak in the interval.
    pub at_highest: Amount,
}

impl Spent {
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
        self.at_highest.add(other.at_highest);
    }

    /// Adds one allocation of the interval.
    #[inline]
    fn take(&mut self, a: &Allocation, stretch: &Stretch) {
        let one = Amount { bytes: a.size, requested: a.requested, count: 1 };
        let was_there = a.from <= stretch.from;
        let is_gone = a.freed <= stretch.to;
        let of = if was_there { &mut self.before } else { &mut self.allocated };
        of.add(one);
        if is_gone {
            let of = if was_there { &mut self.freed_before } else { &mut self.temporary };
            of.add(one);
        }
        if a.is_allocated_at(stretch.highest.moment) {
            self.at_highest.add(one);
        }
    }
}

/// The effects of an interval on a group of allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentGroup {
    /// The origin of the allocations, as in a [`Holder`](crate::Holder).
    pub origin: Option<Origin>,
    /// The property that the allocations share.
    pub key: HolderKey,
    /// The stack that allocated most in the interval; if nothing was allocated, the one that held most.
    pub stack: Option<StackId>,
    /// The effects on the group.
    pub spent: Spent,
}

/// The effects of an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentBy {
    /// The sums over all allocations.
    pub all: Spent,
    /// The sums over the allocations that the filter accepts.
    pub taken: Spent,
    /// The groups of these allocations, most allocated bytes first.
    pub groups: Vec<SpentGroup>,
}

/// Returns the effects of an interval of `history`, in groups of the allocations whose index `takes` accepts. Returns `None` if
/// cancelled.
pub fn spent_by(
    history: &History,
    frames: &Frames,
    known: &impl Known,
    stretch: &Stretch,
    by: By,
    takes: &dyn Fn(usize) -> bool,
    cancel: &Cancel,
) -> Option<SpentBy> {
    let mut parts = Parts::of(history, known, by);
    let mut spent: Vec<Spent> = Vec::new();
    let mut left_out = Spent::default();
    for (step, &id) in stretch.allocations.iter().enumerate() {
        if cancel.is_cancelled_at(step) {
            return None;
        }
        let a = &history.allocations[id as usize];
        if !takes(id as usize) {
            left_out.take(a, stretch);
            continue;
        }
        let part = parts.part(id as usize, a);
        if part == spent.len() {
            spent.push(Spent::default());
        }
        spent[part].take(a, stretch);
    }
    let groups = groups(parts, frames, &spent);
    let mut taken = Spent::default();
    groups.iter().for_each(|group| taken.add(&group.spent));
    let mut all = taken;
    all.add(&left_out);
    Some(SpentBy { all, taken, groups })
}

/// Returns the groups, most allocated bytes first. Each group's stack is that of its largest part.
fn groups(parts: Parts<'_, impl Known>, frames: &Frames, spent: &[Spent]) -> Vec<SpentGroup> {
    let Parted { groups, of_part } = parts.grouped(frames, |part| order(&spent[part]));
    let shared = |group: Group| SpentGroup {
        origin: group.origin,
        key: group.key,
        stack: group.stack,
        spent: Spent::default(),
    };
    let mut groups: Vec<SpentGroup> = groups.into_iter().map(shared).collect();
    for (spent, group) in spent.iter().zip(of_part) {
        groups[group].spent.add(spent);
    }
    groups.sort_by(|a, b| {
        order(&a.spent).cmp(&order(&b.spent)).then_with(|| (a.origin, &a.key).cmp(&(b.origin, &b.key)))
    });
    groups
}

/// Sort key: most allocated bytes first; then most held bytes.
fn order(spent: &Spent) -> (Reverse<u64>, Reverse<u64>, Reverse<u64>) {
    (Reverse(spent.allocated.bytes), Reverse(spent.at_highest.bytes), Reverse(spent.before.bytes))
}

/// A group in an interval, compared with an earlier interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentChange {
    /// The group, with its name from the later interval if it exists there.
    pub group: SpentGroup,
    /// The effects in the earlier interval.
    pub before: Spent,
}

/// Compares groups of an interval with those of an earlier one. The largest increase of allocated bytes comes first, the largest
/// decrease last.
#[must_use]
pub fn spent_changes(now: Vec<SpentGroup>, before: Vec<SpentGroup>) -> Vec<SpentChange> {
    let shared = |group: &SpentGroup| (group.origin, group.key.clone());
    let index: HashMap<_, usize> = now.iter().enumerate().map(|(i, group)| (shared(group), i)).collect();
    let mut changes: Vec<SpentChange> =
        now.into_iter().map(|group| SpentChange { group, before: Spent::default() }).collect();
    for group in before {
        match index.get(&shared(&group)) {
            Some(&i) => changes[i].before = group.spent,
            None => {
                let before = group.spent;
                changes.push(SpentChange { group: SpentGroup { spent: Spent::default(), ..group }, before });
            }
        }
    }
    let grown = |change: &SpentChange| {
        i128::from(change.group.spent.allocated.bytes) - i128::from(change.before.allocated.bytes)
    };
    changes.sort_by_key(|change| Reverse(grown(change)));
    changes
}
