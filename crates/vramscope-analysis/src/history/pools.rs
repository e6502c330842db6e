//! Pools of allocations whose own events do not name them.

use std::collections::BTreeMap;

use vramscope_trace::PoolId;

use super::allocations::History;
use super::lifetime_changes::{LifetimeChange, LifetimeChanges};
use super::moment::Moment;
use super::segments::ReservedRange;

/// Calls `visit` for each allocation with its index and the pool of the reserved range that contained it when it began.
pub fn for_each_with_pool(history: &History, mut visit: impl FnMut(usize, Option<PoolId>)) {
    let ids = 0..history.allocations.len();
    if history.reserved.iter().all(|r| r.pool.is_none()) {
        return ids.for_each(|id| visit(id, None));
    }
    let ranges = history.reserved.iter().enumerate();
    let mut changes = LifetimeChanges::of(ranges.map(|(number, r)| (r.from, r.to, number)));
    let mut live: BTreeMap<u64, &ReservedRange> = BTreeMap::new();
    let mut next = |id: usize| {
        let a = &history.allocations[id];
        while let Some((change, number)) = changes.next_until(a.from) {
            let range = &history.reserved[number];
            match change {
                LifetimeChange::Begins => live.insert(range.address, range),
                LifetimeChange::Ends => live.remove(&range.address),
            };
        }
        let below = live.range(..=a.address).next_back().map(|(_, r)| r);
        visit(id, below.filter(|r| a.address < r.end()).and_then(|r| r.pool));
    };
    // Allocations are usually in the order of their begins and need no sorting.
    if history.allocations.is_sorted_by_key(|a| a.from) {
        return ids.for_each(next);
    }
    let mut begins: Vec<(Moment, usize)> = ids.map(|id| (history.allocations[id].from, id)).collect();
    begins.sort_unstable();
    begins.into_iter().for_each(|(_, id)| next(id));
}
