//! The table of allocations.

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U8s, U32s};
use crate::protocol::search::SearchQuery;

/// The sort column of the table. Missing values come last in both directions; among equal values, the older allocation comes
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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

/// Requests a range of rows of the allocation table.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct AllocationsQuery {
    pub(crate) search: Option<SearchQuery>,
    pub(crate) among: Among,
    pub(crate) sort: AllocationColumn,
    pub(crate) descending: bool,
    /// The first row, and the number of rows.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// The index of an allocation whose row is requested.
    pub(crate) find: Option<usize>,
}

/// A range of rows of the allocation table.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Allocations<'r> {
    /// The number of rows in the whole table, and the sum of their bytes.
    pub(crate) count: usize,
    pub(crate) bytes: u64,
    /// The index of the first returned row.
    pub(crate) first: usize,
    /// The row of the requested allocation; null if it is not in the table.
    pub(crate) found_row: Option<usize>,
    /// The indices of the allocations.
    pub(crate) id: U32s,
    pub(crate) address: F64s,
    /// The number of earlier allocations at the same address.
    pub(crate) version: U32s,
    pub(crate) requested: F64s,
    /// The bytes of its block.
    pub(crate) bytes_of: F64s,
    /// The moments after the allocation and after its free.
    pub(crate) from: U32s,
    pub(crate) freed: U32s,
    /// NaN if unknown.
    pub(crate) from_us: F64s,
    pub(crate) freed_us: F64s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`.
    pub(crate) purpose: U8s,
    /// Positions in `ORIGINS`.
    pub(crate) origin: U8s,
    /// The step of the allocation, from 0.
    pub(crate) step: U32s,
    /// The innermost annotated region around the allocation: a position in `regions`.
    pub(crate) region: U32s,
    pub(crate) regions: Vec<&'r str>,
}
