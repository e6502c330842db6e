//! What a part of the recording allocated, freed and left behind.

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U32s};
use crate::protocol::held::By;
use crate::protocol::search::SearchQuery;

/// What happened between two moments: in the events of the numbers from `from` up to `to`, without the last.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SpentQuery {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) by: By,
    /// What is grouped; null: everything.
    pub(crate) search: Option<SearchQuery>,
    /// The moments between which lies what it is compared with.
    pub(crate) before: Option<[usize; 2]>,
}

/// What a part of the recording did, in groups: what allocated most first; compared with another part, what allocated most more than
/// there first and what allocated most less last.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Spent {
    /// Names each group, in any part of the recording.
    pub(crate) key: Vec<String>,
    /// What each shares, in words.
    pub(crate) label: Vec<String>,
    /// The stack that allocated most of each.
    pub(crate) stack: U32s,
    pub(crate) now: SpentIn,
    /// In the part that is compared with.
    pub(crate) before: Option<SpentIn>,
    /// The same part of the step before, where this is a step, or a region.
    pub(crate) earlier: Option<EarlierPart>,
}

/// A part of the recording, and what it did.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SpentIn {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// `backward of step 2`, `events 10 to 99`.
    pub(crate) title: String,
    /// What it did, in a line.
    pub(crate) headline: String,
    /// Microseconds from its first event to its last; null where they have no times.
    pub(crate) lasted_us: Option<i64>,
    /// The most allocated bytes in it, and the first moment at which it was so much.
    pub(crate) highest: u64,
    pub(crate) highest_moment: usize,
    /// What all allocations did.
    pub(crate) all: SpentAmounts,
    /// What those did that the search finds.
    pub(crate) found: SpentAmounts,
    /// Bytes of each group.
    pub(crate) before: F64s,
    pub(crate) allocated: F64s,
    pub(crate) freed: F64s,
    pub(crate) temporary: F64s,
    pub(crate) survived: F64s,
    pub(crate) at_highest: F64s,
    pub(crate) after: F64s,
    /// How many blocks each allocated.
    pub(crate) count: U32s,
}

/// What allocations did in a part of the recording.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SpentAmounts {
    /// What was allocated before its first event.
    pub(crate) before: Amount,
    pub(crate) allocated: Amount,
    pub(crate) freed: Amount,
    /// What was freed of that which was there before.
    pub(crate) freed_from_before: Amount,
    /// What was allocated and freed again.
    pub(crate) temporary: Amount,
    /// What was allocated and not freed.
    pub(crate) survived: Amount,
    /// What was allocated when most was.
    pub(crate) at_highest: Amount,
    /// What is allocated after its last event.
    pub(crate) after: Amount,
}

/// Bytes, and the number of blocks that they are in.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

/// A part of the recording that can be compared with.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct EarlierPart {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) title: String,
}
