//! The memory that an interval of the recording allocated, freed and retained.

use serde::{Deserialize, Serialize};
use vramscope_analysis::By;

use crate::columns::{F64s, U32s};
use crate::protocol::search::SearchQuery;

/// Requests the activity between two moments: the events `from..to`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SpentQuery {
    pub(crate) from: usize,
    pub(crate) to: usize,
    #[cfg_attr(test, ts(type = "By"))]
    pub(crate) by: By,
    /// The search that selects allocations; null for all.
    pub(crate) search: Option<SearchQuery>,
    /// The moments of the interval for comparison.
    pub(crate) before: Option<[usize; 2]>,
}

/// The activity in an interval, in groups: most allocated bytes first. In a comparison, the largest increase comes first and
/// the largest decrease last.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Spent {
    /// Identifies each group in any interval of the recording.
    pub(crate) key: Vec<String>,
    /// The display name of each group.
    pub(crate) label: Vec<String>,
    /// The stack that allocated most of each group.
    pub(crate) stack: U32s,
    pub(crate) now: SpentIn,
    /// The amounts in the compared interval.
    pub(crate) before: Option<SpentIn>,
    /// The same interval of the previous step, if this is a step or a region.
    pub(crate) earlier: Option<EarlierPart>,
}

/// An interval of the recording, and its amounts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SpentIn {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// For example `backward of step 2` or `events 10 to 99`.
    pub(crate) title: String,
    /// A summary in one line.
    pub(crate) headline: String,
    /// Microseconds from its first event to its last; null without times.
    pub(crate) lasted_us: Option<i64>,
    /// The peak of allocated bytes in the interval, and its first moment.
    pub(crate) highest: u64,
    pub(crate) highest_moment: usize,
    /// The amounts of all allocations.
    pub(crate) all: SpentAmounts,
    /// The amounts of the allocations that match the search.
    pub(crate) found: SpentAmounts,
    /// Bytes of each group.
    pub(crate) before: F64s,
    pub(crate) allocated: F64s,
    pub(crate) freed: F64s,
    pub(crate) temporary: F64s,
    pub(crate) survived: F64s,
    pub(crate) at_highest: F64s,
    pub(crate) after: F64s,
    /// The number of blocks that each group allocated.
    pub(crate) count: U32s,
}

/// The amounts of allocations in an interval.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SpentAmounts {
    /// Live before the first event.
    pub(crate) before: Amount,
    pub(crate) allocated: Amount,
    pub(crate) freed: Amount,
    /// Live before the first event, and freed.
    pub(crate) freed_from_before: Amount,
    /// Allocated and freed.
    pub(crate) temporary: Amount,
    /// Allocated and not freed.
    pub(crate) survived: Amount,
    /// Live at the peak.
    pub(crate) at_highest: Amount,
    /// Live after the last event.
    pub(crate) after: Amount,
}

/// Bytes, and their number of blocks.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

/// An interval of the recording for comparison.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct EarlierPart {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) title: String,
}
