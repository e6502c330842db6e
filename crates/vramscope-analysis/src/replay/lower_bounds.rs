//! Lower bounds on the memory that any allocator needs.

use vramscope_engine::BLOCK_UNIT;
use vramscope_trace::Action;

use crate::history::{History, Moment};
use vramscope_basics::Cancel;
use vramscope_packing::{Effort, Item, Packing, pack_unless};

/// Two lower bounds, in bytes. A request counts with its size rounded up to a multiple of 512, from the moment it was served to
/// the moment it was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerBounds {
    /// The peak of the sum in use: no allocator needs less.
    pub active: u64,
    /// The smallest size found for one address range that holds all requests with known lifetimes. A replay may need less,
    /// because it can release memory in between; then this is the replay's peak.
    pub packed: u64,
    /// Whether the requests provably cannot be packed into fewer than `packed` bytes.
    pub is_optimal: bool,
}

/// Steps of the packing: a few tenths of a second.
const EFFORT: Effort = Effort { sweep_items: 500_000, search_items: 1024, search_steps: 4_000_000 };

impl LowerBounds {
    /// Computes the bounds. `replayed` is the lowest peak of reserved bytes among complete replays.
    pub fn of(packing: &Packing, replayed: Option<u64>) -> Self {
        let active = packing.lower_bound;
        // A replay that leaves out misplaced blocks is not comparable.
        let replayed = replayed.filter(|&replayed| replayed >= active);
        let packed = replayed.map_or(packing.height, |replayed| replayed.min(packing.height));
        let is_optimal = packed == active || (packed == packing.height && packing.is_optimal());
        Self { active, packed, is_optimal }
    }
}

/// Packs all allocations of a history, and each failed request for one moment. Returns `None` if cancelled.
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
