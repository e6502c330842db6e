//! What each group of allocations held when it held most, in two recordings: so that a line is compared with itself, and not with what
//! else happened to be live at the peak of all.

use std::cmp::Reverse;

use vramscope_trace::Trace;

use crate::amount::Amount;
use crate::both::{Both, Side};
use crate::cancel::Cancel;
use crate::changes::{Change, Changes};
use crate::frames::Frames;
use crate::history::{Allocation, History};
use crate::holder_changes::{HolderChange, HoldersOf, Marks, Matched, matched_holders};
use crate::holders::{By, Holder, Known};
use crate::moment::Moment;
use crate::parts::{Group, Parts};
use crate::stretch::Stretch;

/// A part of a recording, in which each group is looked at where it holds most.
#[derive(Debug)]
pub struct Within<'h, K> {
    /// The device.
    pub history: &'h History,
    /// Whose code the frames of its recording are.
    pub frames: &'h Frames,
    /// What is known of its allocations.
    pub known: &'h K,
    /// The part.
    pub stretch: Stretch,
}

/// A group at its own highest bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HighestChange {
    /// The group, with what it holds at its highest in each.
    pub group: HolderChange,
    /// The first moment of that.
    pub moments: Both<Option<Moment>>,
}

/// Groups of a part of each of two recordings, each at its own highest bytes there: what grew most first. Lines are matched as
/// [`holders_of_both`](crate::holders_of_both) does it. `None` where the answer is no longer wanted.
pub fn highest_of_both<K: Known>(
    of: Both<Within<'_, K>>,
    by: By,
    marked: Marks<'_>,
    cancel: &Cancel,
) -> Option<Vec<HighestChange>> {
    let parted = Both { a: Parted::of(of.a, by, cancel)?, b: Parted::of(of.b, by, cancel)? };
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
    let mut all: Vec<_> = together.map(|(group, moments)| HighestChange { group, moments }).collect();
    all.sort_by_key(|change| Reverse(change.group.held().map(|held| held.bytes).difference()));
    Some(all)
}

/// The allocations of a stretch in parts of groups.
struct Parted<'h> {
    history: &'h History,
    frames: &'h Frames,
    stretch: Stretch,
    /// The part of each allocation of the stretch.
    parts: Vec<u32>,
    group_of: Vec<usize>,
    groups: Vec<Holder>,
}

impl<'h> Parted<'h> {
    fn of(within: Within<'h, impl Known>, by: By, cancel: &Cancel) -> Option<Self> {
        let Within { history, frames, known, stretch } = within;
        let mut parts = Parts::of(history, known, by);
        let mut made: Vec<u64> = Vec::new();
        let mut of_allocation = Vec::with_capacity(stretch.allocations.len());
        for (step, &id) in stretch.allocations.iter().enumerate() {
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
        // The stack that names a group is that which allocates most.
        let parted = parts.grouped(frames, |part| Reverse(made[part]));
        let holder = |group: Group| Holder {
            bytes: 0,
            requested: 0,
            count: 0,
            origin: group.origin,
            key: group.key,
            stack: group.stack,
        };
        let groups = parted.groups.into_iter().map(holder).collect();
        Some(Self { history, frames, stretch, parts: of_allocation, group_of: parted.of_part, groups })
    }

    fn trace(&self) -> &'h Trace {
        self.history.trace()
    }

    fn holders(&self) -> HoldersOf<'h> {
        HoldersOf { trace: self.trace(), frames: self.frames, holders: self.groups.clone() }
    }

    /// The most that each of `rows` holds, and the first moment of that. `row_of` is the row of a part.
    fn highest(
        &self,
        row_of: &dyn Fn(usize) -> usize,
        rows: usize,
        cancel: &Cancel,
    ) -> Option<Vec<(Amount, Moment)>> {
        let Self { history, stretch, .. } = self;
        let rows_of_parts: Vec<usize> = (0..self.group_of.len()).map(row_of).collect();
        let allocation = |number: u32| -> &Allocation {
            &history.allocations[stretch.allocations[number as usize] as usize]
        };
        let numbers = 0..stretch.allocations.len() as u32;
        let changes = Changes::of(numbers.map(|number| {
            let a = allocation(number);
            // What ends behind the stretch does not end in it.
            let freed = if a.freed <= stretch.to { a.freed } else { Moment::NEVER };
            (a.from.max(stretch.from), freed, number)
        }));
        let mut now = vec![Amount::default(); rows];
        let mut highest = vec![(Amount::default(), stretch.from); rows];
        for (step, (at, change, number)) in changes.enumerate() {
            if cancel.is_cancelled_at(step) {
                return None;
            }
            let a = allocation(number);
            let row = rows_of_parts[self.parts[number as usize] as usize];
            let one = Amount { bytes: a.size, requested: a.requested, count: 1 };
            match change {
                Change::Ends => now[row] = now[row].minus(one),
                Change::Begins => {
                    now[row].add(one);
                    // At one moment all that ends is told before what begins: the last of these has it all.
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
