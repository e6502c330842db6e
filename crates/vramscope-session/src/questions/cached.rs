//! Answers that a device computes once: orders of the allocation table, and peaks of pools.

use serde::{Deserialize, Serialize};

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

/// The sort column of the table. Missing values come last in both directions; among equal values, the older allocation comes
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum AllocationColumn {
    /// The allocation's index.
    Allocation,
    Address,
    RequestedBytes,
    BlockBytes,
    AllocEvent,
    FreeEvent,
    LifetimeEvents,
    LifetimeUs,
    Stream,
    Pool,
    Category,
    Line,
    Layer,
    Step,
    Region,
}

/// The allocations in the table, before any search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "are", rename_all = "snake_case")]
pub(crate) enum Among {
    All,
    /// Allocations that are live at a moment.
    LiveAt {
        moment: usize,
    },
    /// Allocations made after the moment `from`, up to the moment `to`.
    Within {
        from: usize,
        to: usize,
    },
}
