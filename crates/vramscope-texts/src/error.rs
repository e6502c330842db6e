//! An out-of-memory error, and its numbers.

use serde::Serialize;

/// An out-of-memory error in a text. Numbers are bytes as the text rounds them; `None` if the text does not have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TextError {
    /// The program or library, as `pytorch`.
    pub program: &'static str,
    /// The kind of memory: `cuda`, `rocm`, `xpu`, `npu`, `mps`, `tpu`, `host` or others.
    pub platform: &'static str,
    /// The line, counted from 1.
    pub line: u64,
    /// The rank that wrote it.
    pub rank: Option<u32>,
    /// The device.
    pub device: Option<u32>,
    /// The bytes that were requested.
    #[serde(rename = "tried_bytes")]
    pub tried: Option<u64>,
    /// The size of the device.
    #[serde(rename = "total_bytes")]
    pub total: Option<u64>,
    /// Free bytes of the device.
    #[serde(rename = "free_bytes")]
    pub free: Option<u64>,
    /// What the process uses on the device.
    #[serde(rename = "process_bytes")]
    pub process: Option<u64>,
    /// What other processes use on the device.
    #[serde(rename = "others_bytes")]
    pub others: Option<u64>,
    /// Allocated by the program's allocator, which counts free blocks of private pools too.
    #[serde(rename = "allocated_bytes")]
    pub allocated: Option<u64>,
    /// Reserved by the program's allocator.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Option<u64>,
    /// Reserved and not allocated: the cache.
    #[serde(rename = "reserved_unallocated_bytes")]
    pub cached: Option<u64>,
    /// In private pools, such as those of CUDA graphs.
    #[serde(rename = "private_pools_bytes")]
    pub private_pools: Option<u64>,
    /// The limit that the program or its allocator has.
    #[serde(rename = "limit_bytes")]
    pub limit: Option<u64>,
    /// The text shows that expandable segments are on.
    pub expandable_segments: bool,
    /// What the wording itself says of the cause.
    #[serde(skip)]
    pub(crate) says: Option<crate::cause::CauseKind>,
}

impl TextError {
    /// Reserved and not allocated bytes, from either form of the message.
    #[must_use]
    pub fn cache(&self) -> Option<u64> {
        self.cached.or_else(|| Some(self.reserved?.saturating_sub(self.allocated?)))
    }

    /// Whether `other` is the same error, printed again.
    pub(crate) fn is_again(&self, other: &Self) -> bool {
        let known = |of: &Self| Self { line: 0, rank: None, ..of.clone() };
        let ranks = [self.rank, other.rank];
        known(self) == known(other) && (ranks[0] == ranks[1] || ranks.contains(&None))
    }
}

/// What a text has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The errors, in the order of the text.
    pub errors: Vec<TextError>,
    /// Errors beyond [`MOST_ERRORS`](crate::MOST_ERRORS).
    pub more_errors: u64,
    /// Lines about failures that follow from another one: closed connections, collectives that time out, workers that are ended.
    pub followed: u64,
    /// Number of lines.
    pub lines: u64,
}

/// An error with its cause, as in `vramscope report --json`.
#[derive(Serialize)]
pub struct ErrorJson<'f> {
    #[serde(flatten)]
    error: &'f TextError,
    cause: crate::cause::Cause,
}

/// What a text has, as in `vramscope report --json`.
#[derive(Serialize)]
pub struct FoundJson<'f> {
    lines: u64,
    errors: Vec<ErrorJson<'f>>,
    more_errors: u64,
    followed: u64,
}

impl Found {
    /// The output as JSON.
    #[must_use]
    pub fn json(&self) -> FoundJson<'_> {
        let error = |error| ErrorJson { error, cause: TextError::cause(error) };
        let Self { lines, more_errors, followed, .. } = *self;
        FoundJson { lines, errors: self.errors.iter().map(error).collect(), more_errors, followed }
    }
}
