//! The contents of a recording: live memory, segments and blocks, events, allocations, regions.

use serde::{Deserialize, Serialize};
use vramscope_analysis::By;

use crate::columns::{F64s, U8s, U32s};
use crate::protocol::held::Holders;
use crate::protocol::recording::ByKind;

/// Segments and blocks at a moment, both ordered by address. Ranges without a block are free.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Layout {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) segments: LayoutSegments,
    pub(crate) blocks: LayoutBlocks,
}

/// An expandable segment is listed as its mapped ranges; blocks may span adjacent ranges.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LayoutSegments {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 if the segment is expandable.
    pub(crate) expandable: U8s,
    pub(crate) stack: U32s,
    pub(crate) from: U32s,
}

/// The active blocks of a layout.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LayoutBlocks {
    pub(crate) allocation: U32s,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) requested: F64s,
    /// 1 if the block was freed and waits for another stream.
    pub(crate) pending: U8s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`.
    pub(crate) purpose: U8s,
    pub(crate) from: U32s,
    /// 1 if the block was live before recording.
    pub(crate) preexisting: U8s,
}

/// A range of events, in order.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Events {
    /// The index of the first event.
    pub(crate) first: usize,
    /// A position in `ACTIONS`.
    pub(crate) action: U8s,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    /// NaN if no time was recorded.
    pub(crate) time_us: F64s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// The allocation that the event starts or frees.
    pub(crate) allocation: U32s,
}

/// All facts about one allocation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Allocation<'r> {
    pub(crate) id: usize,
    pub(crate) address: u64,
    /// The number of earlier allocations at the same address.
    pub(crate) version: u32,
    pub(crate) requested: u64,
    /// The bytes of its block.
    pub(crate) bytes: u64,
    /// The moment after the allocation; 0 if it was live before recording.
    pub(crate) from: usize,
    /// The moment after its free.
    pub(crate) freed: Option<usize>,
    /// The moment after its memory became available again. It is later than `freed` if other streams still used the memory.
    pub(crate) to: Option<usize>,
    pub(crate) from_us: Option<i64>,
    pub(crate) freed_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    pub(crate) stack: Option<usize>,
    pub(crate) free_stack: Option<usize>,
    /// The forward pass of this backward allocation, if anomaly mode recorded it: lines of text, outermost call first.
    pub(crate) forward: Vec<&'r str>,
    pub(crate) tags: u32,
    /// A position in the device's `purposes`.
    pub(crate) purpose: u8,
    /// A position in `ORIGINS`.
    pub(crate) origin: u8,
    pub(crate) size_inferred: bool,
    /// Allocated bytes right after the allocation.
    pub(crate) total: u64,
    /// Null if its accesses are unknown.
    pub(crate) uses: Option<Uses>,
    /// Null if the program did not describe it.
    pub(crate) tensor: Option<Tensor<'r>>,
}

/// The tensor in an allocation, as the program described it at the snapshot.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Tensor<'r> {
    /// The name of a parameter, a gradient or an optimizer state; empty for other tensors.
    pub(crate) name: &'r str,
    pub(crate) dtype: &'r str,
    pub(crate) shape: &'r str,
    /// Chains of references from a variable to the tensor.
    pub(crate) referrers: Vec<&'r str>,
}

/// The accesses of an allocation by kernels, libraries and copies.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Uses {
    pub(crate) count: u64,
    /// The moments of the first and the last access; null without any.
    pub(crate) first: Option<usize>,
    pub(crate) last: Option<usize>,
    pub(crate) first_us: Option<i64>,
    pub(crate) last_us: Option<i64>,
    /// The moments of the two consecutive accesses with the most events between them; null for fewer than two accesses.
    pub(crate) longest_idle: Option<[usize; 2]>,
    /// Microseconds between the two.
    pub(crate) longest_idle_us: Option<i64>,
}

/// Annotated regions: one entry per run, outermost first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Regions<'r> {
    pub(crate) names: Vec<&'r str>,
    /// A position in `names`.
    pub(crate) name: U32s,
    /// The row in which it is drawn: below the regions that contain it, and separate from those that overlap it.
    pub(crate) row: U8s,
    /// The last moment before the run's first event, and the last moment of the run.
    pub(crate) from: U32s,
    pub(crate) to: U32s,
    pub(crate) from_us: F64s,
    pub(crate) to_us: F64s,
}

/// The kinds of [`Markers`], by position.
#[cfg(test)]
pub(crate) const MARKERS: [&str; 4] = ["oom", "snapshot", "step", "region"];

/// The markers along the recording: failed requests and snapshots, then steps, then region runs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Markers {
    /// A position in `MARKERS`.
    pub(crate) kind: U8s,
    /// The index of the step, or of the run among the regions.
    pub(crate) number: U32s,
    /// The moment after its event; for steps and regions, after the first event.
    pub(crate) moment: U32s,
    /// Microseconds after the first event; NaN if the recording has no times.
    pub(crate) time_us: F64s,
    /// Allocated bytes at that moment.
    pub(crate) allocated: F64s,
    /// Bytes of a failed request.
    pub(crate) requested: F64s,
}

/// Every reserved range, ordered by its first moment, and the peaks of each pool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Segments<'r> {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) from: U32s,
    /// `NONE` if it still exists at the end.
    pub(crate) to: U32s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 if the segment is expandable.
    pub(crate) expandable: U8s,
    pub(crate) stack: U32s,
    pub(crate) pools: &'r [PoolPeaks],
    /// The reserved bytes of each pool over time, default pool first.
    pub(crate) courses: &'r [PoolCourse],
}

/// The reserved bytes of a pool over time, summed over its streams.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolCourse {
    pub(crate) pool: Option<[u64; 2]>,
    /// For example `private pool (1, 0)`.
    pub(crate) name: String,
    /// The kind of pool, as far as its id shows it. Null for the default pool, and if no pool was recorded.
    pub(crate) kind: Option<&'static str>,
    /// The stack that reserved its first memory.
    pub(crate) stack: u32,
    pub(crate) peak_reserved: u64,
    /// The first moment of its peak of active bytes.
    pub(crate) fullest_moment: usize,
    /// Moments, and the bytes from there on, in order. Chunks of many changes are reduced to their maximum.
    pub(crate) points: Vec<(usize, u64)>,
}

/// Requests the holders of a pool at a moment.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PoolQuery {
    pub(crate) pool: Option<[u64; 2]>,
    pub(crate) moment: usize,
    #[cfg_attr(test, ts(type = "By"))]
    pub(crate) by: By,
}

/// The holders of a pool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolHeld {
    pub(crate) reserved: u64,
    pub(crate) allocated: u64,
    /// Groups of the pool's live allocations.
    pub(crate) holders: Holders,
}

/// The pools of a device, computed once.
#[derive(Debug)]
pub(crate) struct Pools {
    /// Sorted by pool and stream.
    pub(crate) peaks: Vec<PoolPeaks>,
    pub(crate) courses: Vec<PoolCourse>,
}

/// The peaks of reserved and active bytes of a pool on a stream.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolPeaks {
    pub(crate) pool: Option<[u64; 2]>,
    pub(crate) stream: u64,
    pub(crate) peak_reserved: u64,
    pub(crate) peak_active: u64,
}
