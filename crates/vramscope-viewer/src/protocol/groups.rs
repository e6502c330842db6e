//! Groups of allocations as pictures colour them, and as a legend lists them.

use serde::{Deserialize, Serialize};

use crate::columns::U32s;
use crate::protocol::held::By;
use crate::protocol::search::SearchQuery;

/// What groups a picture is coloured by.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct GroupsQuery {
    pub(crate) by: By,
}

/// The groups of a device by what tells them: stacks, or tags.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Groups {
    /// By what each is coloured: a number made of its name, the same in every recording; 0 of a group that stands for nothing known.
    /// Those that cover most of the timeline, or of its peak, come first.
    pub(crate) hue: U32s,
    /// The group of each stack of the file, `NONE` where none is of the device; empty where tags tell it.
    pub(crate) stack: U32s,
    /// The group of what has no stack.
    pub(crate) no_stack: u32,
    /// The group of each of the device's tags; empty where stacks tell it.
    pub(crate) tags: U32s,
    /// The hue of each frame of the file, for trees of calls; empty but by line, function, file and module.
    pub(crate) frame: U32s,
}

/// What a legend lists: the groups at the moment of some at which most is allocated.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LegendQuery {
    pub(crate) by: By,
    /// The first and the last of the moments.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Whether it is about reserved ranges, and not about what is allocated.
    pub(crate) reserved: bool,
    /// How many groups it lists.
    pub(crate) most: usize,
    /// What is not faded.
    pub(crate) search: Option<SearchQuery>,
}

/// The largest groups at a moment, and what is left of all.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Legend {
    pub(crate) moment: usize,
    /// The bytes of all groups.
    pub(crate) bytes: u64,
    /// How many of them the search finds; null where nothing is searched for.
    pub(crate) found: Option<u64>,
    /// Most bytes first.
    pub(crate) groups: Vec<GroupShare>,
    /// How many groups are not listed, and their bytes.
    pub(crate) others: usize,
    pub(crate) other_bytes: u64,
}

/// What one group holds.
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
    /// How many of the bytes the search finds.
    pub(crate) found: u64,
    /// The stack that holds most of it; null where none was recorded.
    pub(crate) stack: Option<usize>,
}
