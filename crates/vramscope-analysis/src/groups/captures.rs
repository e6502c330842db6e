//! What each capture of a CUDA graph added to its pool.
//!
//! PyTorch's history does not mark captures. A program allocates outside of the pool before each capture: the inputs, or the results of a
//! warm-up run. So consecutive allocations in the pool, with none outside of it in between, are one capture.

use hashbrown::HashSet;
use vramscope_trace::{FrameId, PoolId, StackId};

use crate::history::{History, Moment, RecordedAllocation, ReservedRange};

/// One capture of a CUDA graph, or several with no allocation outside of their pool in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphCapture {
    /// The event of its first allocation.
    pub event: usize,
    /// Number of its allocations.
    pub allocations: usize,
    /// Its largest request, in bytes.
    pub largest_request: u64,
    /// Bytes of segments that the pool reserved in it.
    pub reserved: u64,
    /// Bytes of the pool's blocks that are allocated after it, minus those before it.
    pub allocated: i64,
}

/// Returns the pools of CUDA graphs, known by their ids, or because an allocation in the pool is the first on its stream after one of
/// `capture_begin`: a pool of `graph_pool_handle()` has the id of a `torch.cuda.MemPool`. `pool_of` returns the pool of an allocation, by
/// its index.
pub(crate) fn graph_pools(history: &History, pool_of: impl Fn(usize) -> Option<PoolId>) -> HashSet<PoolId> {
    let trace = history.trace();
    let begins_capture = |&frame: &FrameId| {
        let frame = trace.frames.get(frame);
        trace.strings.get(frame.name) == "capture_begin"
            && trace.strings.get(frame.filename).replace('\\', "/").ends_with("torch/cuda/graphs.py")
    };
    let stacks = trace.stacks.iter().filter(|(_, frames)| frames.iter().any(begins_capture));
    let stacks: HashSet<StackId> = stacks.map(|(id, _)| id).collect();
    let mut pools = HashSet::new();
    // The streams on which a capture began, until their next allocation.
    let mut begun: HashSet<u64> = HashSet::new();
    for (id, a) in history.allocations.iter().enumerate().filter(|(_, a)| !a.is_preexisting()) {
        let pool = pool_of(id).filter(|&pool| pool != PoolId::default());
        if a.stack.is_some_and(|stack| stacks.contains(&stack)) {
            begun.insert(a.stream);
        } else if begun.remove(&a.stream) {
            pools.extend(pool);
        }
        pools.extend(pool.filter(|pool| pool.1 == 0));
    }
    pools
}

/// Bytes by event, for sums over intervals of events.
struct Sums {
    events: Vec<usize>,
    /// The sum of all bytes before each position.
    before: Vec<u64>,
}

impl Sums {
    fn of(bytes: impl Iterator<Item = (usize, u64)>) -> Self {
        let mut bytes: Vec<(usize, u64)> = bytes.collect();
        bytes.sort_unstable();
        let mut before = vec![0];
        let mut sum = 0_u64;
        for (_, bytes) in &bytes {
            sum = sum.saturating_add(*bytes);
            before.push(sum);
        }
        Self { events: bytes.into_iter().map(|(event, _)| event).collect(), before }
    }

    /// Returns the sum over the half-open range of events.
    fn between(&self, from: usize, to: usize) -> u64 {
        let position = |event| self.events.partition_point(|&e| e < event);
        self.before[position(to)].saturating_sub(self.before[position(from)])
    }
}

/// Returns the captures of a pool, in order. `inside` are its allocations and `ranges` its segments; `order` has the events of the
/// allocations of all pools, in order. The recording has `events` events.
pub(super) fn captures(
    inside: &[&RecordedAllocation],
    ranges: &[&ReservedRange],
    order: &[usize],
    events: usize,
) -> Vec<GraphCapture> {
    let recorded = |moment: Moment| moment.event().filter(|&event| event < events);
    let mut made: Vec<(usize, usize, &RecordedAllocation)> = inside
        .iter()
        .filter_map(|a| recorded(a.from).map(|event| (order.partition_point(|&e| e < event), event, *a)))
        .collect();
    made.sort_unstable_by_key(|&(position, ..)| position);
    let freed = Sums::of(inside.iter().filter_map(|a| Some((recorded(a.freed)?, a.size))));
    let reserved = Sums::of(ranges.iter().filter_map(|range| Some((recorded(range.from)?, range.size))));
    let mut captures = Vec::new();
    for part in made.chunk_by(|a, b| a.0 + 1 == b.0) {
        let (Some(&(first, event, _)), Some(&(last, ..))) = (part.first(), part.last()) else { continue };
        let from = first.checked_sub(1).and_then(|before| order.get(before)).map_or(0, |before| before + 1);
        let to = order.get(last + 1).copied().unwrap_or(events);
        let added: u64 = part.iter().map(|(.., a)| a.size).sum();
        captures.push(GraphCapture {
            event,
            allocations: part.len(),
            largest_request: part.iter().map(|(.., a)| a.requested).max().unwrap_or(0),
            reserved: reserved.between(from, to),
            allocated: added.cast_signed().saturating_sub(freed.between(from, to).cast_signed()),
        });
    }
    captures
}
