//! The table of allocations.

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U8s, U32s};
use crate::protocol::search::SearchQuery;

/// What the table is sorted by. What has no value stands last in both directions; of equal ones the older comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum AllocationColumn {
    /// Its number.
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

/// Which allocations the table has, where nothing is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "are", rename_all = "snake_case")]
pub(crate) enum Among {
    All,
    /// Those that are allocated at a moment.
    LiveAt {
        moment: usize,
    },
    /// Those that were allocated after one moment and not after another.
    Within {
        from: usize,
        to: usize,
    },
}

/// Asks for some rows of the table of allocations.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AllocationsQuery {
    pub(crate) search: Option<SearchQuery>,
    pub(crate) among: Among,
    pub(crate) sort: AllocationColumn,
    pub(crate) descending: bool,
    /// The row to begin with, and how many.
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// Some rows of the table of allocations.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Allocations<'r> {
    /// How many rows the table has, and their bytes added up.
    pub(crate) count: usize,
    pub(crate) bytes: u64,
    /// The first of these rows.
    pub(crate) first: usize,
    /// The numbers of the allocations.
    pub(crate) id: U32s,
    pub(crate) address: F64s,
    /// Which of the allocations at this address it is, from 0.
    pub(crate) version: U32s,
    pub(crate) requested: F64s,
    /// The bytes of its block.
    pub(crate) bytes_of: F64s,
    /// The moment after it was made, and that after it was freed.
    pub(crate) from: U32s,
    pub(crate) freed: U32s,
    /// NaN where it is not known.
    pub(crate) from_us: F64s,
    pub(crate) freed_us: F64s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`.
    pub(crate) purpose: U8s,
    /// Positions in `ORIGINS`.
    pub(crate) origin: U8s,
    /// The step in which it was made, from 0.
    pub(crate) step: U32s,
    /// The innermost annotated region around it: a position in `regions`.
    pub(crate) region: U32s,
    pub(crate) regions: Vec<&'r str>,
}
