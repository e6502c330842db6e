//! How little memory any allocator could do with.

use vramscope_engine::BLOCK_UNIT;
use vramscope_trace::Action;

use crate::cancel::Cancel;
use crate::history::History;
use crate::moment::Moment;
use crate::packing::{Effort, Item, Packing, pack_unless};

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
        let active = packing.lower_bound;
        // A replay that leaves out what has no place says nothing.
        let replayed = replayed.filter(|&replayed| replayed >= active);
        let packed = replayed.map_or(packing.height, |replayed| replayed.min(packing.height));
        let is_optimal = packed == active || (packed == packing.height && packing.is_optimal());
        Self { active, packed, is_optimal }
    }
}

/// Packs every allocation of a history, and each request that failed for the moment at which it was made.
/// `None` where the answer is no longer wanted.
pub(super) fn pack_history(history: &History, cancel: &Cancel) -> Option<Packing> {
    let block = |bytes: u64| bytes.max(1).checked_next_multiple_of(BLOCK_UNIT).unwrap_or(u64::MAX);
    let served = history.allocations.iter().map(|a| Item {
        from: a.from.index() as u32,
        to: a.freed.index() as u32,
        size: block(a.requested),
    });
    let events = &history.device().events;
    let failed = events.actions().iter().enumerate().filter(|&(_, &action)| action == Action::Oom);
    let failed = failed.map(|(event, _)| {
        let from = Moment::after(event).index() as u32;
        Item { from, to: from + 1, size: block(events.get(event).size) }
    });
    pack_unless(&served.chain(failed).collect::<Vec<_>>(), EFFORT, cancel)
}
