//! How little memory any allocator could do with.

use vramscope_allocator::BLOCK_UNIT;

use crate::history::History;
use crate::packing::{Effort, Item, Packing, pack};

/// Two bounds from below, in bytes. A request counts as many bytes as in the plainest policy, a multiple of 512,
/// from when it was served until its owner gave it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floors {
    /// The highest sum in use at one time: no allocator can do with less.
    pub active: u64,
    /// The fewest bytes of one range of addresses in which all of them were placed with their lifetimes known,
    /// or fewer, where a replay did with fewer by giving memory back in between.
    pub packed: u64,
    /// Nobody can pack them into fewer than `packed` bytes.
    pub is_optimal: bool,
}

/// Steps of the packing: some tenths of a second.
const EFFORT: Effort = Effort { sweep_items: 500_000, search_items: 1024, search_steps: 4_000_000 };

impl Floors {
    /// The bounds for a history; `replayed` is the least that a replay of all of it reserved.
    pub fn of(packing: &Packing, replayed: Option<u64>) -> Self {
        let packed = replayed.map_or(packing.height, |replayed| replayed.min(packing.height));
        let is_optimal = packing.is_optimal() || packed == packing.lower_bound;
        Self { active: packing.lower_bound, packed, is_optimal }
    }
}

/// Packs every allocation of a history.
pub(super) fn pack_history(history: &History<'_>) -> Packing {
    let items: Vec<Item> = history
        .allocations
        .iter()
        .map(|a| Item {
            from: a.from.index() as u32,
            to: a.freed.index() as u32,
            size: a.requested.max(1).checked_next_multiple_of(BLOCK_UNIT).unwrap_or(u64::MAX),
        })
        .collect();
    pack(&items, EFFORT)
}
