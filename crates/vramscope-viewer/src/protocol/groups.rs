//! Groups of allocations, for the colors of pictures and for the legend.

use serde::{Deserialize, Serialize};
use vramscope_analysis::By;

use crate::columns::U32s;
use crate::protocol::search::SearchQuery;

/// Requests the groups by which a picture is colored.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct GroupsQuery {
    #[cfg_attr(test, ts(type = "By"))]
    pub(crate) by: By,
}

/// The groups of a device, assigned to stacks or to tags.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Groups {
    /// The hue of each group: a hash of its name, equal in every recording; 0 for a group without a known name. Groups that
    /// cover most of the timeline, or of its peak, come first.
    pub(crate) hue: U32s,
    /// The group of each stack of the file; `NONE` if the device does not use it. Empty if groups are assigned to tags.
    pub(crate) stack: U32s,
    /// The group of allocations without a stack.
    pub(crate) no_stack: u32,
    /// The group of each of the device's tags; empty if groups are assigned to stacks.
    pub(crate) tags: U32s,
    /// The hue of each frame of the file, for call trees. Empty unless grouped by line, function, file or module.
    pub(crate) frame: U32s,
}

/// Requests a legend: the groups at the peak of an interval.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LegendQuery {
    #[cfg_attr(test, ts(type = "By"))]
    pub(crate) by: By,
    /// The first and the last moment of the interval.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Whether to list reserved ranges instead of live allocations.
    pub(crate) reserved: bool,
    /// The maximum number of groups.
    pub(crate) most: usize,
    /// The search whose matches are not faded.
    pub(crate) search: Option<SearchQuery>,
    /// Whether only the matches are listed.
    #[serde(default)]
    pub(crate) only_found: bool,
}

/// The largest groups at a moment, and the sum of the others.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Legend {
    pub(crate) moment: usize,
    /// The bytes of all allocations or ranges, whether they match or not.
    pub(crate) bytes: u64,
    /// The matching bytes among them; null without a search.
    pub(crate) found: Option<u64>,
    /// Most bytes first.
    pub(crate) groups: Vec<GroupShare>,
    /// The number of groups that are not listed, and their bytes.
    pub(crate) others: usize,
    pub(crate) other_bytes: u64,
}

/// The bytes of one group.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct GroupShare {
    /// As in `Holders`.
    pub(crate) key: String,
    pub(crate) label: String,
    pub(crate) hue: u32,
    pub(crate) bytes: u64,
    /// The number of blocks or ranges.
    pub(crate) count: u64,
    /// The matching bytes.
    pub(crate) found: u64,
    /// The stack with the most bytes; null if none was recorded.
    pub(crate) stack: Option<usize>,
}
