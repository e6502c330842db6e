//! The live allocations at a moment: groups, call tree, sums.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{By, CallsOf};

use crate::columns::{F64s, U8s, U32s};
use crate::protocol::recording::ByKind;
use crate::protocol::search::SearchQuery;
use crate::protocol::transforms::CallTransform;

/// Requests the live allocations at a moment.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LiveQuery {
    pub(crate) moment: usize,
    #[cfg_attr(test, ts(type = "By"))]
    pub(crate) by: By,
    /// The frames that become nodes of the call tree.
    #[cfg_attr(test, ts(type = "CallsOf"))]
    pub(crate) calls: CallsOf,
    /// Whether the innermost calls are the roots of the tree.
    pub(crate) inverted: bool,
    /// An earlier moment for comparison.
    pub(crate) before: Option<usize>,
    /// A search that marks groups; with `only_found`, only matches are included.
    pub(crate) search: Option<SearchQuery>,
    pub(crate) only_found: bool,
    /// The path of a node of the call tree, from its root: the groups have the allocations of this node alone, or of
    /// its nearest caller that exists at the moment. A step is the number of a
    /// frame, or a position in `Calls.words` as -1, -2, ...
    #[serde(default)]
    pub(crate) zoom: Vec<i32>,
    /// Transforms of the call tree.
    #[serde(default)]
    pub(crate) transforms: Vec<CallTransform>,
}

/// The live allocations at a moment. All parts of the answer refer to the same moment.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Live {
    pub(crate) holders: Holders,
    pub(crate) calls: Calls,
    /// Bytes for each of `CATEGORIES`; null before the categories are computed.
    pub(crate) categories: Option<Vec<u64>>,
    /// The number of live blocks, the number of matching blocks, and the matching bytes.
    pub(crate) blocks: usize,
    pub(crate) found_blocks: usize,
    pub(crate) found_bytes: u64,
}

/// Requests groups of the live allocations at one moment of each of two devices.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HoldersOfBothQuery {
    pub(crate) moment: usize,
    #[cfg_attr(test, ts(type = "By"))]
    pub(crate) by: By,
    pub(crate) search: Option<SearchQuery>,
    /// The position of the other file, and of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_moment: usize,
}

/// Requests groups of the live allocations in an interval of each of two devices, each group at its own peak.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HighestOfBothQuery {
    /// The first and the last moment of the interval.
    pub(crate) from: usize,
    pub(crate) to: usize,
    #[cfg_attr(test, ts(type = "By"))]
    pub(crate) by: By,
    pub(crate) search: Option<SearchQuery>,
    /// The position of the other file, and of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_from: usize,
    pub(crate) other_to: usize,
}

/// Groups, each with its bytes at its own peak. The moments of `holders` are those of the overall peak.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HighestOfBoth {
    pub(crate) holders: Holders,
    /// The moment of each group's own peak in the first device; `NONE` if it has no bytes there.
    pub(crate) moment: U32s,
    /// The same for the other device.
    pub(crate) other_moment: U32s,
}

/// Groups of the live allocations at a moment, most bytes first. In a comparison with another moment or recording, the largest
/// growth comes first and the largest decrease last.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Holders {
    /// Identifies each group at any moment of the recording.
    pub(crate) key: Vec<String>,
    /// The display name of each group.
    pub(crate) label: Vec<String>,
    /// The hue of each group: see [`Groups`](super::groups::Groups).
    pub(crate) hue: U32s,
    /// 1 if the group contains matches, at either moment.
    pub(crate) found: U8s,
    pub(crate) now: HeldAt,
    /// The compared moment or recording.
    pub(crate) before: Option<HeldAt>,
}

/// The amounts of the groups at a moment.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HeldAt {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) bytes: F64s,
    pub(crate) requested: F64s,
    /// The number of blocks.
    pub(crate) count: U32s,
    /// The stack with the most bytes of each group.
    pub(crate) stack: U32s,
}

/// The call tree of the live allocations at a moment, and of those at another. Callers precede callees, largest weight first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Calls {
    /// The position of the caller; `NONE` for a root.
    pub(crate) parent: U32s,
    /// The frame; `NONE` for a node without a frame.
    pub(crate) frame: U32s,
    /// The meaning of a node without a frame: a position in `words`.
    pub(crate) word: U32s,
    pub(crate) words: Vec<String>,
    /// The position in `words` from which they name collapsed frames.
    pub(crate) first_group: usize,
    /// The bytes and blocks of the node and its descendants, now and before.
    pub(crate) bytes: F64s,
    pub(crate) count: U32s,
    pub(crate) bytes_before: F64s,
    pub(crate) count_before: U32s,
    /// The matching bytes.
    pub(crate) found: F64s,
    /// The larger of the bytes now and before, summed from the leaves.
    pub(crate) weight: F64s,
}

/// Requests the first difference between the allocated bytes over an interval of each of two devices.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PartingQuery {
    /// The first and the last moment of the interval.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The position of the other file, and of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_from: usize,
    pub(crate) other_to: usize,
}

/// The first difference between two sequences of changes of the allocated bytes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Parting {
    /// The number of changes before the difference.
    pub(crate) shared: usize,
    /// Whether there is no difference.
    pub(crate) is_same: bool,
    /// The moments right after the first change that differs; null if the interval has no further change.
    pub(crate) moment: Option<usize>,
    pub(crate) other_moment: Option<usize>,
}
