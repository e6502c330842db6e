//! An out-of-memory error, and its numbers.

use serde::Serialize;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Even with an empty cache, the request would not have fit.
    Size,
    /// The cache has the missing bytes, in pieces that cannot serve the request.
    Fragmentation,
    /// Other processes use what is missing.
    Others,
    /// A limit of the program; the device has room.
    Limit,
    /// More bytes are free than were requested, but not as the allocator needs them.
    Pages,
    /// The memory of the host, not of the device.
    Host,
    /// Virtual addresses, not memory.
    AddressSpace,
    /// The text does not show it.
    Unknown,
}

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
    pub(crate) says: Option<CauseKind>,
}

impl TextError {
    /// Reserved and not allocated bytes, from either form of the message.
    #[must_use]
    pub fn cache(&self) -> Option<u64> {
        self.cached.or_else(|| Some(self.reserved?.saturating_sub(self.allocated?)))
    }

    /// Joins `other` with this error if they are one error in two messages: no number of the one contradicts the other. Returns whether they were.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let ranks = [self.rank, other.rank];
        let is_one_rank = ranks[0] == ranks[1] || ranks.contains(&None);
        let mut joined = self.clone();
        // JAX has TensorFlow's allocator, which states the rounded size.
        let is_jax = self.program == "tensorflow" && other.program == "jax";
        if is_jax && other.tried.is_some() {
            joined.program = other.program;
            joined.tried = other.tried;
        }
        let mut agree = (self.program == other.program || is_jax) && is_one_rank;
        for (into, of) in joined.fields().into_iter().zip(other.clone().fields()) {
            agree &= into.is_none() || of.is_none() || *into == *of;
            *into = into.or(*of);
        }
        agree &= self.device.is_none() || other.device.is_none() || self.device == other.device;
        if !agree {
            return false;
        }
        joined.device = joined.device.or(other.device);
        joined.says = joined.says.or(other.says);
        joined.expandable_segments |= other.expandable_segments;
        *self = joined;
        true
    }

    /// Whether it is a failed request: the dump of TensorFlow's allocator also comes without one.
    pub(crate) fn is_failure(&self) -> bool {
        self.program != "tensorflow" || self.tried.is_some() || self.device.is_some()
    }

    fn fields(&mut self) -> [&mut Option<u64>; 10] {
        let Self {
            tried,
            total,
            free,
            process,
            others,
            allocated,
            reserved,
            cached,
            private_pools,
            limit,
            ..
        } = self;
        [tried, total, free, process, others, allocated, reserved, cached, private_pools, limit]
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
