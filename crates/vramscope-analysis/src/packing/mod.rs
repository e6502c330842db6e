//! Offline packing: with all lifetimes known, in how few bytes could these allocations have lived?
//!
//! This is dynamic storage allocation, or packing rectangles whose place along the time axis is fixed. It is NP-hard
//! in general, so [`pack`] does what its [`Effort`] allows: [`sweep`] packs any number of items, mostly within a few
//! percent of the bound, and [`search`] then tries to close what gap is left where items are few. Both count steps
//! and never look at a clock: the same items and effort always give the same packing.

mod events;
mod search;
mod strip;
mod sweep;
#[cfg(test)]
mod tests;
mod tiers;

use crate::cancel::Cancel;
use events::Events;

/// One allocation: `size` bytes over the half-open lifetime `[from, to)`.
///
/// Times are ranks of events or any other clock that only grows. An item of no bytes, or one that ends before it
/// starts, takes no room and is given the offset 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Item {
    /// The first time at which the bytes are held.
    pub from: u32,
    /// The first time at which they are no longer held.
    pub to: u32,
    /// How many bytes it takes.
    pub size: u64,
}

impl Item {
    fn takes_room(&self) -> bool {
        self.size > 0 && self.from < self.to
    }
}

/// Where to put each item so that no two overlap both in time and in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// First byte of each item, in the order given.
    pub offsets: Vec<u64>,
    /// Bytes the packing needs: the largest offset + size.
    ///
    /// `u64::MAX` can also mean that the items need more than that; their offsets say nothing then.
    pub height: u64,
    /// No packing needs fewer bytes: the highest sum of sizes live at one time, at most `u64::MAX`.
    pub lower_bound: u64,
    /// The search closed every branch below `height`: no packing is lower, even if `lower_bound` is.
    pub exhausted: bool,
}

impl Packing {
    /// Whether no packing can be lower than this one.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.exhausted || self.height == self.lower_bound
    }
}

/// How much work [`pack`] may do beyond its one first sweep. All plain counts, so that results are reproducible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Items that sweeps may handle in all before no other one is begun; about half a microsecond each.
    pub sweep_items: u64,
    /// The largest number of items that are searched exactly; never more than 4096, the depth of the recursion.
    pub search_items: usize,
    /// Items that the nodes of the search may look at in all; about 50 nanoseconds each.
    pub search_steps: u64,
}

impl Default for Effort {
    /// Up to a second of sweeps, and some seconds of search where items are few and the sweeps fell short.
    fn default() -> Self {
        Self { sweep_items: 1_000_000, search_items: 512, search_steps: 48_000_000 }
    }
}

/// Packs `items` into few bytes.
#[must_use]
pub fn pack(items: &[Item], effort: Effort) -> Packing {
    let nothing = || Packing { offsets: vec![0; items.len()], height: 0, lower_bound: 0, exhausted: false };
    pack_unless(items, effort, &Cancel::default()).unwrap_or_else(nothing)
}

/// As [`pack`]; `None` where the answer is no longer wanted.
pub(crate) fn pack_unless(items: &[Item], effort: Effort, cancel: &Cancel) -> Option<Packing> {
    let events = Events::new(items);
    let lower_bound = events.peak(items);
    let mut packing = sweep::pack(items, &events, lower_bound, effort.sweep_items, cancel);
    if packing.height > lower_bound && events.starts.len() <= effort.search_items {
        search::improve(items, &mut packing, effort.search_steps);
    }
    (!cancel.is_cancelled()).then_some(packing)
}

/// The largest offset + size.
fn height(items: &[Item], offsets: &[u64]) -> u64 {
    let with_room = items.iter().zip(offsets).filter(|(item, _)| item.takes_room());
    with_room.map(|(item, &offset)| offset.saturating_add(item.size)).max().unwrap_or(0)
}
