//! Holders: the live allocations at a moment, in groups.

use std::cmp::Reverse;

use super::amount::Amount;
use super::grouping::{Grouped, Grouping};
use super::keys::{By, Holder};
use super::properties::{AllocationProperties, KnownProperties, NoProperties};
use crate::history::{History, Layout, Moment, RecordedAllocation};
use crate::stacks::Frames;

/// Returns the groups at `moment`, largest first. Their bytes add up to the allocated bytes at that moment.
pub fn holders_at(history: &History, frames: &Frames, moment: Moment, by: By) -> Vec<Holder> {
    let layout = Layout::at(history, moment);
    let known = KnownProperties::at(history, &layout);
    holders_without_stacks(history, frames, &known, layout.allocated_ids(), by)
}

/// Like [`holders_among`], but groups that do not depend on the stack get none.
pub(crate) fn holders_without_stacks(
    history: &History,
    frames: &Frames,
    known: &impl AllocationProperties,
    allocations: impl Iterator<Item = usize>,
    by: By,
) -> Vec<Holder> {
    let mut holders = holders_among(history, frames, known, allocations, by);
    holders.iter_mut().for_each(|holder| holder.stack = holder.stack.filter(|_| holder.origin.is_some()));
    holders
}

/// Groups some allocations, largest group first, each with the stack that holds most of its bytes. Allocations are given by their
/// index in [`History::allocations`].
pub fn holders_among(
    history: &History,
    frames: &Frames,
    known: &impl AllocationProperties,
    allocations: impl Iterator<Item = usize>,
    by: By,
) -> Vec<Holder> {
    group(history, frames, known, allocations.map(|id| (id, &history.allocations[id])), by)
}

/// Sums some allocations by line, most bytes first. They need not be those of the history, but have its stacks.
pub(crate) fn by_line<'h>(
    history: &History,
    frames: &Frames,
    allocations: impl Iterator<Item = &'h RecordedAllocation>,
) -> Vec<Holder> {
    // Lines do not depend on properties, so the index is not used.
    group(history, frames, &NoProperties, allocations.map(|a| (0, a)), By::Line)
}

fn group<'h>(
    history: &History,
    frames: &Frames,
    known: &impl AllocationProperties,
    allocations: impl Iterator<Item = (usize, &'h RecordedAllocation)>,
    by: By,
) -> Vec<Holder> {
    let mut parts = Grouping::of(history, known, by, allocations.size_hint().1.unwrap_or(usize::MAX));
    let mut sums: Vec<Amount> = Vec::new();
    for (id, a) in allocations {
        let part = parts.part(id, a);
        if part == sums.len() {
            sums.push(Amount::default());
        }
        sums[part].add(a.amount());
    }
    let Grouped { groups: mut holders, of_part } = parts.grouped(frames, |part| Reverse(sums[part].bytes));
    sums.into_iter().zip(of_part).for_each(|(sum, group)| holders[group].add(sum));
    holders.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (a.origin, &a.key).cmp(&(b.origin, &b.key))));
    holders
}
