//! What is live at a moment: groups, calls, sums.

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U8s, U32s};
use crate::protocol::recording::ByKind;
use crate::protocol::search::SearchQuery;

/// What live allocations are grouped by, as `vramscope report --by` names it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    Stack,
    Line,
    Function,
    File,
    Module,
    Category,
    Layer,
    Step,
    Stream,
    Pool,
    Size,
}

impl From<By> for vramscope_analysis::By {
    fn from(by: By) -> Self {
        match by {
            By::Stack => Self::Stack,
            By::Line => Self::Line,
            By::Function => Self::Function,
            By::File => Self::File,
            By::Module => Self::Module,
            By::Category => Self::Category,
            By::Layer => Self::Layer,
            By::Step => Self::Step,
            By::Stream => Self::Stream,
            By::Pool => Self::Pool,
            By::Size => Self::Size,
        }
    }
}

/// Which frames of a stack make nodes of the tree of calls: those of the user's code, of Python, or all.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallsOf {
    Own,
    Python,
    All,
}

impl From<CallsOf> for vramscope_analysis::CallsOf {
    fn from(of: CallsOf) -> Self {
        match of {
            CallsOf::Own => Self::Own,
            CallsOf::Python => Self::Python,
            CallsOf::All => Self::All,
        }
    }
}

/// What is live at a moment.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LiveQuery {
    pub(crate) moment: usize,
    pub(crate) by: By,
    /// Which frames make nodes of the tree of calls.
    pub(crate) calls: CallsOf,
    /// Whether the innermost calls are outermost in the tree.
    pub(crate) inverted: bool,
    /// An earlier moment to compare with.
    pub(crate) before: Option<usize>,
    /// What is marked in the answer; or, with `only_found`, all that is in it.
    pub(crate) search: Option<SearchQuery>,
    pub(crate) only_found: bool,
}

/// What is live at a moment, so that all that is shown is of one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Live {
    pub(crate) holders: Holders,
    pub(crate) calls: Calls,
    /// Bytes for each of `CATEGORIES`; null as long as nobody has asked what memory is for.
    pub(crate) categories: Option<Vec<u64>>,
    /// How many blocks are allocated, and how many of them, and of their bytes, the search finds.
    pub(crate) blocks: usize,
    pub(crate) found_blocks: usize,
    pub(crate) found_bytes: u64,
}

/// Groups of what is live at a moment of each of two devices.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HoldersOfBothQuery {
    pub(crate) moment: usize,
    pub(crate) by: By,
    pub(crate) search: Option<SearchQuery>,
    /// The position of the other file, and that of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_moment: usize,
}

/// Groups of what is allocated in a part of each of two devices, each group where it holds most.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct HighestOfBothQuery {
    /// The first and the last moment of the part.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) by: By,
    pub(crate) search: Option<SearchQuery>,
    /// The position of the other file, and that of the device in it.
    pub(crate) other_file: usize,
    pub(crate) other_device: usize,
    pub(crate) other_from: usize,
    pub(crate) other_to: usize,
}

/// Groups with what each holds at its own highest; the moments of `holders` are those at which all of them together hold most.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HighestOfBoth {
    pub(crate) holders: Holders,
    /// For each group its own highest moment in the first device; `NONE` where it holds nothing there.
    pub(crate) moment: U32s,
    /// The same of the other device.
    pub(crate) other_moment: U32s,
}

/// Groups of what is allocated at a moment, most bytes first; compared with another moment or another recording, what grew most first
/// and what shrank most last.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Holders {
    /// Names each group, at any moment of the recording.
    pub(crate) key: Vec<String>,
    /// What each shares, in words.
    pub(crate) label: Vec<String>,
    /// By what each is coloured: see [`Groups`](super::groups::Groups).
    pub(crate) hue: U32s,
    /// 1 where the search finds some of it, at either moment.
    pub(crate) found: U8s,
    pub(crate) now: HeldAt,
    /// At the moment, or of the recording, that is compared with.
    pub(crate) before: Option<HeldAt>,
}

/// What the groups hold at a moment.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HeldAt {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) bytes: F64s,
    pub(crate) requested: F64s,
    /// The number of blocks.
    pub(crate) count: U32s,
    /// The stack that holds most of each.
    pub(crate) stack: U32s,
}

/// The call tree of what is live at a moment, and of what was live at another: each call before what it calls, those that weigh most first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Calls {
    /// The position of the caller; `NONE` of the outermost.
    pub(crate) parent: U32s,
    /// The frame; `NONE` where the node stands for something else.
    pub(crate) frame: U32s,
    /// What a node without a frame stands for: a position in `words`.
    pub(crate) word: U8s,
    pub(crate) words: Vec<String>,
    /// What was allocated there and below, now and before.
    pub(crate) bytes: F64s,
    pub(crate) count: U32s,
    pub(crate) bytes_before: F64s,
    pub(crate) count_before: U32s,
    /// How many of the bytes the search finds.
    pub(crate) found: F64s,
    /// The larger of the bytes now and before, added up from the innermost calls.
    pub(crate) weight: F64s,
}
