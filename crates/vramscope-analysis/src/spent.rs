//! What a stretch of a recording did to the allocated bytes: what was allocated in it, what was freed, what was temporary and what it
//! left behind, in groups.

use std::cmp::Reverse;

use hashbrown::HashMap;
use vramscope_trace::StackId;

use crate::amount::Amount;
use crate::cancel::Cancel;
use crate::frames::Frames;
use crate::history::{Allocation, History, Origin};
use crate::holders::{By, HolderKey, Known};
use crate::parts::{Group, Parted, Parts};
use crate::stretch::Stretch;

/// What some allocations did in a stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// What was allocated when it began.
    pub before: Amount,
    /// What was allocated in it.
    pub allocated: Amount,
    /// What was freed in it of that which was there before.
    pub freed_before: Amount,
    /// What was allocated in it and freed in it, too.
    pub temporary: Amount,
    /// What was allocated at the moment at which most of the device was.
    pub at_highest: Amount,
}

impl Spent {
    /// All that was freed in it.
    #[must_use]
    pub fn freed(&self) -> Amount {
        self.freed_before.plus(self.temporary)
    }

    /// What was allocated in it and is still there when it ends.
    #[must_use]
    pub fn survived(&self) -> Amount {
        self.allocated.minus(self.temporary)
    }

    /// What is allocated when it ends.
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

    /// Takes in one allocation of the stretch.
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

/// What a group of allocations did in a stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentGroup {
    /// How they are known, as of a [`Holder`](crate::Holder).
    pub origin: Option<Origin>,
    /// What they share.
    pub key: HolderKey,
    /// The stack that allocated most in it; where it allocated nothing, that which held most.
    pub stack: Option<StackId>,
    /// What they did.
    pub spent: Spent,
}

/// What a stretch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentBy {
    /// All allocations together.
    pub all: Spent,
    /// Those together that were asked for.
    pub taken: Spent,
    /// The same in groups: what allocated most first.
    pub groups: Vec<SpentGroup>,
}

/// What a stretch of `history` did, in groups of those allocations that `takes` takes by their numbers. `None` where the answer is no
/// longer wanted.
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

/// The groups, what allocated most first. The stack of each is that of its largest part.
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

/// What allocated most first; of what allocated as much, what held most.
fn order(spent: &Spent) -> (Reverse<u64>, Reverse<u64>, Reverse<u64>) {
    (Reverse(spent.allocated.bytes), Reverse(spent.at_highest.bytes), Reverse(spent.before.bytes))
}

/// A group in a stretch, and in one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentChange {
    /// The group, named as it is in the later stretch where it is there.
    pub group: SpentGroup,
    /// What it did in the stretch before.
    pub before: Spent,
}

/// Groups of a stretch beside those of one before: what allocated most more than before first, what allocated most less last.
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
