//! Searches and their results.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{Axis, ByteKind};

use crate::columns::{U8s, U32s};
use crate::protocol::transforms::CallTransform;

/// A search for allocations: one condition, or a combination. Conditions with an invalid text are ignored, and the answer says
/// why.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Query"))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum SearchQuery {
    /// All conditions match.
    All { of: Vec<SearchQuery> },
    /// At least one condition matches.
    Any { of: Vec<SearchQuery> },
    /// The condition does not match.
    Not { of: Box<SearchQuery> },
    /// The allocation was retained by this leak: an index into the report's leaks.
    Leak { leak: usize },
    /// The allocation is idle memory of this finding: an index into the report's findings of idle memory.
    Idle { idle: usize },
    /// The allocations that transforms of the call tree keep.
    Transforms { transforms: Vec<CallTransform> },
    /// A frame of the stack, or the frame that names it, contains this text.
    Frame { field: FrameField, sought: Sought },
    /// A tag contains this text.
    Tag { field: TagField, sought: Sought },
    /// The name of the category contains this text.
    Category { sought: Sought },
    /// The allocation was made in a region whose name contains this text.
    Region { sought: Sought },
    /// The allocation was made in a phase of a step whose name contains this text.
    Phase { sought: Sought },
    /// The allocation was made in one of these steps, counted from 1, inclusive.
    Step { from: f64, to: Option<f64> },
    /// The block contains this address. With `version`, the allocation with this index among those that begin at the address.
    Address { address: f64, version: Option<u32> },
    /// The block size compared with a size such as `10MiB`.
    Size { sign: SizeSign, size: String },
    /// The allocation lived for at least `from` and at most `to`; `null` means any longer time. If the allocation or its free is not
    /// recorded, it lived at least as long as it was live in the recording.
    Lived { from: f64, to: Option<f64>, unit: LifetimeUnit },
    /// The moment after the allocation is in one of these closed intervals of moments.
    Allocated { spans: Vec<[u32; 2]> },
    /// The moment after the free is in one of these closed intervals. It is `NONE` if the allocation was never freed.
    Freed { spans: Vec<[u32; 2]> },
}

/// A text to search for, ignoring case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Sought {
    pub(crate) text: String,
    /// Whether it is a regular expression.
    pub(crate) is_pattern: bool,
}

/// The part of a stack in which a text is searched.
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

/// The tag in which a text is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum TagField {
    Stream,
    Pool,
    /// The path of the module.
    Layer,
    /// The compile context.
    Context,
    /// The program's text.
    Metadata,
}

/// The comparison of a block size with a size.
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

/// The unit of a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LifetimeUnit {
    Events,
    /// Microseconds.
    Us,
}

/// The matches of a search: their number, a bit set, and the largest of them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Found {
    pub(crate) count: usize,
    /// The bytes of all matches, summed over the recording.
    pub(crate) bytes: u64,
    /// A bit for each allocation, starting with the lowest bit of the first byte: 1 for a match.
    pub(crate) allocations: U8s,
    /// The same for each reserved range.
    pub(crate) ranges: U8s,
    /// The indices of the largest matches.
    pub(crate) id: U32s,
    /// For each of `CATEGORIES`: 0 if the search cannot match it, judged by its category conditions.
    pub(crate) categories: Vec<u8>,
    /// Why conditions are ignored.
    pub(crate) unclear: Vec<String>,
    /// Whether no condition is valid, so that everything matches.
    pub(crate) is_empty: bool,
}

/// Requests the positions of matches that are smaller than a pixel in a window.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SpecksQuery {
    pub(crate) search: SearchQuery,
    #[cfg_attr(test, ts(type = "Axis"))]
    pub(crate) axis: Axis,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) width: u16,
    /// The bytes per pixel.
    pub(crate) bytes: f64,
}

/// Matches that are too small for a picture.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Specks {
    /// 1 for each pixel column in which such an allocation begins. Allocations from before the window count in the first
    /// column.
    pub(crate) at: U8s,
    pub(crate) count: usize,
}

/// Requests the position of an allocation in the stacked timeline.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PlaceQuery {
    pub(crate) id: usize,
    #[cfg_attr(test, ts(type = "ByteKind"))]
    pub(crate) stacked: ByteKind,
    /// The search whose matches alone are stacked; null for all allocations.
    pub(crate) only: Option<SearchQuery>,
}

/// The position of an allocation in the stacked timeline.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Place {
    /// Its first moment, and the first moment after its end; the end of the recording if it stays.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) from_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    /// Its bytes as stacked.
    pub(crate) bytes: u64,
    /// The bytes below it at its first moment and at its last moment. The second number is never larger.
    pub(crate) below_first: u64,
    pub(crate) below_last: u64,
}
