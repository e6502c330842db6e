//! Searches, and what they find.

use serde::{Deserialize, Serialize};

use crate::columns::{U8s, U32s};
use crate::protocol::timeline::{Axis, ByteKind};

/// Tells which allocations are searched for: one condition, or several put together. A condition whose text means nothing does not
/// count, and the answer says why.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Query"))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SearchQuery {
    /// What matches every one.
    All { of: Vec<SearchQuery> },
    /// What matches at least one.
    Any { of: Vec<SearchQuery> },
    /// What does not match.
    Not { of: Box<SearchQuery> },
    /// What the leak of this number keeps, from 0, of those that the report lists.
    Leak { leak: usize },
    /// A frame of the stack, or the frame that names it, has this text.
    Frame { field: FrameField, sought: Sought },
    /// A tag has this text.
    Tag { field: TagField, sought: Sought },
    /// The name of its category has this text.
    Category { sought: Sought },
    /// It was allocated in a region whose name has this text.
    Region { sought: Sought },
    /// It was allocated in one of these steps, counted from 1, both included.
    Step { from: f64, to: Option<f64> },
    /// An address inside of the block; with `version` the allocation of this number, from 0, of those that begin there.
    Address { address: f64, version: Option<u32> },
    /// The block's bytes beside a size, such as `10MiB`.
    Size { sign: SizeSign, size: String },
    /// The moment after it was made lies in one of these spans: their first moments and their last.
    Allocated { spans: Vec<[u32; 2]> },
    /// The same of the moment after it was freed, which is `NONE` where it never was.
    Freed { spans: Vec<[u32; 2]> },
}

/// A text to find within others, without regard to letter case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Sought {
    pub(crate) text: String,
    /// Whether it is a regular expression.
    pub(crate) is_pattern: bool,
}

/// Where in a stack a text is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum FrameField {
    /// File, line and function of any frame.
    Any,
    /// The file of any frame.
    File,
    /// The function of any frame.
    Function,
    /// The line by which tables name the stack.
    Line,
}

/// Which tag a text is looked for in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TagField {
    Stream,
    Pool,
    /// The path of the module.
    Layer,
    /// What was compiled.
    Context,
    /// The text that the program set.
    Metadata,
}

/// How blocks compare with a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum SizeSign {
    Above,
    AtLeast,
    Below,
    AtMost,
    /// Within half a percent.
    About,
}

/// Allocations that a search finds: how many, which, and the largest of them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Found {
    pub(crate) count: usize,
    /// The bytes of all that were found, added up over the recording.
    pub(crate) bytes: u64,
    /// A bit for each allocation, the first in the lowest bit of the first byte: 1 where it was found.
    pub(crate) allocations: U8s,
    /// The same for each reserved range.
    pub(crate) ranges: U8s,
    /// The numbers of the largest.
    pub(crate) id: U32s,
    /// For each of `CATEGORIES` 0 where the search finds nothing of it, as far as its conditions about categories tell.
    pub(crate) categories: Vec<u8>,
    /// Why conditions do not count.
    pub(crate) unclear: Vec<String>,
    /// No condition counts: all is found.
    pub(crate) is_empty: bool,
}

/// Asks where what a search finds lies in a window in which it is smaller than a pixel.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SpecksQuery {
    pub(crate) search: SearchQuery,
    pub(crate) axis: Axis,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) width: u16,
    /// The bytes of a pixel.
    pub(crate) bytes: f64,
}

/// What a search finds and a picture cannot show.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Specks {
    /// 1 for each pixel column in which such an allocation begins; what began before the window stands in the first.
    pub(crate) at: U8s,
    pub(crate) count: usize,
}

/// Asks where an allocation lies in the stack.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PlaceQuery {
    pub(crate) id: usize,
    pub(crate) stacked: ByteKind,
}

/// Where an allocation lies in the stack.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Place {
    /// Its first moment, and the first at which it is there no more; the end of the recording where it stays.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) from_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    /// Its bytes as they are stacked.
    pub(crate) bytes: u64,
    /// What lies below it at its first moment, and at its last: no more than at the first.
    pub(crate) below_first: u64,
    pub(crate) below_last: u64,
}
