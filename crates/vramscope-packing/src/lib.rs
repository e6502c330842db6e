//! Offline packing: given all lifetimes, computes a small number of bytes in which the allocations could have lived.
//!
//! This is dynamic storage allocation, or packing rectangles with fixed positions along the time axis. It is NP-hard in general,
//! so [`pack`] limits its work to an [`Effort`]. Work is counted in steps, not in time: the same items and effort always give the
//! same packing.
//!
//! # Modules
//! - `sweep`: packs any number of items, usually within a few percent of the bound. `strip`: the address line at one moment of it.
//!   `tiers`: the order of placement.
//! - `search`: tries to close the remaining gap if there are few items.
//! - `events`: starts and ends of items in time order, and the lower bound.

mod events;
mod search;
mod strip;
mod sweep;
#[cfg(test)]
mod tests;
mod tiers;

use events::Events;
use vramscope_basics::Cancel;

/// One allocation: `size` bytes over the half-open lifetime `[from, to)`.
///
/// Times are event indices or any other monotonic clock. An item of zero bytes, or one that ends before it starts, takes no room
/// and gets the offset 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Item {
    /// The first time at which the bytes are in use.
    pub from: u32,
    /// The first time at which the bytes are no longer in use.
    pub to: u32,
    /// Size in bytes.
    pub size: u64,
}

impl Item {
    fn takes_room(&self) -> bool {
        self.size > 0 && self.from < self.to
    }
}

/// A position for each item, such that no two items overlap both in time and in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// The first byte of each item, in the given order.
    pub offsets: Vec<u64>,
    /// Bytes that the packing needs: the largest offset + size.
    ///
    /// `u64::MAX` can also mean that the items need more bytes than that; the offsets are then meaningless.
    pub height: u64,
    /// Lower bound of all packings: the peak of the live sizes, at most `u64::MAX`.
    pub lower_bound: u64,
    /// The search closed every branch below `height`, so no packing is lower, even if `lower_bound` is.
    pub exhausted: bool,
}

impl Packing {
    /// Whether no packing can be lower than this one.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.exhausted || self.height == self.lower_bound
    }
}

/// Limits for the work of [`pack`] beyond its first sweep, as counts of steps, so that results are reproducible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Total number of items that sweeps may process before no further sweep starts; about half a microsecond each.
    pub sweep_items: u64,
    /// The largest number of items for which the exact search runs; at most 4096, the depth of its recursion.
    pub search_items: usize,
    /// Total number of items that the nodes of the search may examine; about 50 nanoseconds each.
    pub search_steps: u64,
}

impl Default for Effort {
    /// Up to a second of sweeps. If there are few items and the sweeps fall short, some seconds of search.
    fn default() -> Self {
        Self { sweep_items: 1_000_000, search_items: 512, search_steps: 48_000_000 }
    }
}

/// Packs `items` into a small number of bytes.
#[must_use]
pub fn pack(items: &[Item], effort: Effort) -> Packing {
    let nothing = || Packing { offsets: vec![0; items.len()], height: 0, lower_bound: 0, exhausted: false };
    pack_unless(items, effort, &Cancel::default()).unwrap_or_else(nothing)
}

/// Like [`pack`]; returns `None` if cancelled.
#[must_use]
pub fn pack_unless(items: &[Item], effort: Effort, cancel: &Cancel) -> Option<Packing> {
    let events = Events::new(items);
    let lower_bound = events.peak(items);
    let mut packing = sweep::pack(items, &events, lower_bound, effort.sweep_items, cancel);
    if packing.height > lower_bound && events.starts.len() <= effort.search_items {
        search::improve(items, &mut packing, effort.search_steps);
    }
    (!cancel.is_cancelled()).then_some(packing)
}

/// Returns the largest offset + size.
fn height(items: &[Item], offsets: &[u64]) -> u64 {
    let with_room = items.iter().zip(offsets).filter(|(item, _)| item.takes_room());
    with_room.map(|(item, &offset)| offset.saturating_add(item.size)).max().unwrap_or(0)
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
