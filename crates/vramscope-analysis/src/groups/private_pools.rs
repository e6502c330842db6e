//! Private pools: memory that serves only the requests of one `torch.cuda.MemPool`, or of the CUDA graphs that share a pool.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use vramscope_trace::PoolId;

use super::captures::{GraphCapture, captures, graph_pools};
use crate::history::{History, Moment, RecordedAllocation, ReservedRange, for_each_with_pool};

/// A private pool, at the end of the recording and at its peaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivatePoolUse {
    /// The pool.
    pub pool: PoolId,
    /// Number of its segments at the end.
    pub segments: usize,
    /// Bytes of its segments at the end.
    pub reserved: u64,
    /// Bytes of the blocks that are allocated in it at the end.
    pub allocated: u64,
    /// Number of these blocks.
    pub blocks: usize,
    /// The most bytes of the blocks that were allocated in it.
    pub peak_allocated: u64,
    /// Whether it belongs to CUDA graphs.
    pub is_of_graphs: bool,
    /// If it belongs to CUDA graphs: the captures that allocated in it, in order.
    pub captures: Vec<GraphCapture>,
}

/// Returns the private pools that exist at the end, most reserved bytes first. `pools` has the pool of each allocation.
pub(crate) fn private_pools(
    history: &History,
    pools: impl Fn(usize) -> Option<PoolId>,
) -> Vec<PrivatePoolUse> {
    let end = history.end();
    let mut ranges: BTreeMap<PoolId, Vec<&ReservedRange>> = BTreeMap::new();
    for range in &history.reserved {
        if let Some(pool) = range.pool.filter(|&pool| pool != PoolId::default()) {
            ranges.entry(pool).or_default().push(range);
        }
    }
    let mut inside: HashMap<PoolId, Vec<&RecordedAllocation>> = HashMap::new();
    if !ranges.is_empty() {
        for (id, a) in history.allocations.iter().enumerate() {
            if let Some(pool) = pools(id).filter(|pool| ranges.contains_key(pool)) {
                inside.entry(pool).or_default().push(a);
            }
        }
    }
    let graphs = if ranges.is_empty() { HashSet::new() } else { graph_pools(history, &pools) };
    let events = history.device().events.len();
    let mut order: Vec<usize> = Vec::new();
    if !ranges.is_empty() {
        order.extend(history.recorded().filter_map(|a| a.from.event()));
        order.sort_unstable();
    }
    let of = |(pool, ranges): (PoolId, Vec<&ReservedRange>)| {
        let allocations = inside.remove(&pool).unwrap_or_default();
        let is_of_graphs = graphs.contains(&pool);
        let captures =
            if is_of_graphs { captures(&allocations, &ranges, &order, events) } else { Vec::new() };
        let allocated = || allocations.iter().filter(|a| a.is_allocated_at(end));
        let reserved: Vec<u64> = ranges.iter().filter(|r| r.lives_at(end)).map(|r| r.size).collect();
        PrivatePoolUse {
            pool,
            segments: reserved.len(),
            reserved: reserved.iter().sum(),
            allocated: allocated().map(|a| a.size).sum(),
            blocks: allocated().count(),
            peak_allocated: peak(&allocations).0,
            is_of_graphs,
            captures,
        }
    };
    let mut found: Vec<PrivatePoolUse> =
        ranges.into_iter().map(of).filter(|pool| pool.reserved > 0).collect();
    found.sort_by_key(|pool| (std::cmp::Reverse(pool.reserved), pool.pool));
    found
}

/// Returns the pool of each allocation; empty if the recording has no private pools.
pub(crate) fn pools_of(history: &History) -> Vec<Option<PoolId>> {
    let is_private = |pool: Option<PoolId>| pool.is_some_and(|pool| pool != PoolId::default());
    if !history.reserved.iter().any(|range| is_private(range.pool)) {
        return Vec::new();
    }
    let mut pools = vec![None; history.allocations.len()];
    for_each_with_pool(history, |id, around| {
        let tags = history.allocations[id].tags;
        pools[id] = tags.and_then(|tags| history.trace().tags.get(tags).pool).or(around);
    });
    pools
}

/// The most bytes of these allocations that are allocated at one moment, and the event of the first such moment; `None` if it is before the
/// first event.
pub(super) fn peak(allocations: &[&RecordedAllocation]) -> (u64, Option<usize>) {
    let mut changes: Vec<(Moment, i64)> = allocations
        .iter()
        .flat_map(|a| [(a.from, a.size.cast_signed()), (a.freed, -a.size.cast_signed())])
        .collect();
    changes.sort_unstable();
    let (mut now, mut most, mut event) = (0_i64, 0_i64, None);
    for (moment, by) in changes {
        now = now.saturating_add(by);
        if now > most {
            (most, event) = (now, moment.event());
        }
    }
    (most.unsigned_abs(), event)
}
