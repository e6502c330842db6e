//! What is in a recording: live memory, segments and blocks, events, allocations, regions.

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U8s, U32s};
use crate::protocol::held::{By, Holders};
use crate::protocol::recording::ByKind;

/// Segments and blocks at a moment, both by address. What no block covers is free.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Layout {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) segments: LayoutSegments,
    pub(crate) blocks: LayoutBlocks,
}

/// An expandable segment comes in the pieces in which it was mapped; blocks reach across pieces that touch.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LayoutSegments {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 where the segment is expandable.
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
    /// 1 where the block was freed and waits for another stream.
    pub(crate) pending: U8s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`.
    pub(crate) purpose: U8s,
    pub(crate) from: U32s,
    /// 1 where the block was live before recording began.
    pub(crate) preexisting: U8s,
}

/// Some events, in order.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Events {
    /// The number of the first of them.
    pub(crate) first: usize,
    /// A position in `ACTIONS`.
    pub(crate) action: U8s,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    /// NaN where it was not recorded.
    pub(crate) time_us: F64s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// The allocation that it makes or frees.
    pub(crate) allocation: U32s,
}

/// Everything about one allocation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Allocation<'r> {
    pub(crate) id: usize,
    pub(crate) address: u64,
    /// Which of the allocations at this address it is, from 0.
    pub(crate) version: u32,
    pub(crate) requested: u64,
    /// The bytes of its block.
    pub(crate) bytes: u64,
    /// The moment after it was made; 0 of what was live before recording began.
    pub(crate) from: usize,
    /// The moment after it was freed.
    pub(crate) freed: Option<usize>,
    /// The moment after its memory was available again, which may be later than `freed`: other streams may use it on.
    pub(crate) to: Option<usize>,
    pub(crate) from_us: Option<i64>,
    pub(crate) freed_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    pub(crate) stack: Option<usize>,
    pub(crate) free_stack: Option<usize>,
    /// The forward pass behind it, where anomaly mode saw one: lines of text, outermost call first.
    pub(crate) forward: Vec<&'r str>,
    pub(crate) tags: u32,
    /// A position in the device's `purposes`.
    pub(crate) purpose: u8,
    /// A position in `ORIGINS`.
    pub(crate) origin: u8,
    pub(crate) size_inferred: bool,
    /// Allocated bytes right after it was made.
    pub(crate) total: u64,
}

/// Annotated regions: one entry a run, outermost first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Regions<'r> {
    pub(crate) names: Vec<&'r str>,
    /// A position in `names`.
    pub(crate) name: U32s,
    /// The row in which it is drawn: below those around it, and apart from those that overlap it.
    pub(crate) row: U8s,
    /// The last moments before anything happened in the run, and in it.
    pub(crate) from: U32s,
    pub(crate) to: U32s,
    pub(crate) from_us: F64s,
    pub(crate) to_us: F64s,
}

/// What [`Markers`] mark, by their positions.
#[cfg(test)]
pub(crate) const MARKERS: [&str; 4] = ["oom", "snapshot", "step", "region"];

/// What is marked along the recording: failed requests and snapshots, then steps, then runs of regions.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Markers {
    /// A position in `MARKERS`.
    pub(crate) kind: U8s,
    /// The number of the step, or of the run among the regions.
    pub(crate) number: U32s,
    /// The moment after its event, of what has several the first.
    pub(crate) moment: U32s,
    /// Microseconds after the first event; NaN where the recording has no times.
    pub(crate) time_us: F64s,
    /// Bytes allocated at that moment.
    pub(crate) allocated: F64s,
    /// Bytes of a request that failed.
    pub(crate) requested: F64s,
}

/// Every range of memory that was reserved, by its first moment, and the highest bytes of each pool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Segments<'r> {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) from: U32s,
    /// `NONE` where it is still there at the end.
    pub(crate) to: U32s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 where the segment is expandable.
    pub(crate) expandable: U8s,
    pub(crate) stack: U32s,
    pub(crate) pools: &'r [PoolPeaks],
    /// The reserved bytes of each pool over time, the default pool first.
    pub(crate) courses: &'r [PoolCourse],
}

/// The reserved bytes of a pool, of all its streams, over time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolCourse {
    pub(crate) pool: Option<[u64; 2]>,
    /// `private pool (1, 0)`.
    pub(crate) name: String,
    /// What it is, as far as its number tells; null of the default pool, and where no pool is recorded.
    pub(crate) kind: Option<&'static str>,
    /// The stack that reserved its first memory.
    pub(crate) stack: u32,
    pub(crate) peak_reserved: u64,
    /// The first moment at which most of it was active.
    pub(crate) fullest_moment: usize,
    /// Moments and the bytes from there on, in order; of many changes in a row the highest.
    pub(crate) points: Vec<(usize, u64)>,
}

/// What a pool holds at a moment.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PoolQuery {
    pub(crate) pool: Option<[u64; 2]>,
    pub(crate) moment: usize,
    pub(crate) by: By,
}

/// What a pool holds.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolHeld {
    pub(crate) reserved: u64,
    pub(crate) allocated: u64,
    /// Groups of what is allocated in it.
    pub(crate) holders: Holders,
}

/// What is counted once of the pools of a device.
#[derive(Debug)]
pub(crate) struct Pools {
    /// Sorted by pool and stream.
    pub(crate) peaks: Vec<PoolPeaks>,
    pub(crate) courses: Vec<PoolCourse>,
}

/// The highest reserved and active bytes of a pool on a stream.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolPeaks {
    pub(crate) pool: Option<[u64; 2]>,
    pub(crate) stream: u64,
    pub(crate) peak_reserved: u64,
    pub(crate) peak_active: u64,
}
