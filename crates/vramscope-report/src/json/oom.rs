//! JSON of a failed request.

use serde::Serialize;
use vramscope_analysis::{
    FailedRequest, OomCause, OomCauseKind, OomExplanation, Origin, Pin, UnexplainedOoms,
};

use super::fragmentation::{FreeBlockJson, UnusableJson, free_block, unusable};
use super::holders::HolderJson;
use super::stacks::{Builder, FrameJson, StackJson, is_zero};

/// An allocation request that ran out of memory.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "OutOfMemory"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Oom"))]
pub(super) struct OomJson {
    event: usize,
    time_us: Option<i64>,
    requested_bytes: u64,
    stream: u64,
    device_free_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
    /// Reserved bytes outside of active blocks; only `usable_bytes` of them could serve the request.
    reserved_unused_bytes: u64,
    usable_bytes: u64,
    unusable: Vec<UnusableJson>,
    largest_free_block: Option<FreeBlockJson>,
    /// Whether the device had room for the request, and a limit on reserved bytes prevented it.
    at_limit: bool,
    /// Whether the free device memory and the unused reserved memory together would have been enough.
    enough_in_total: bool,
    missing_bytes: u64,
    /// Total device memory; null if it was not recorded.
    device_total_bytes: Option<u64>,
    /// Device memory missing for the request.
    lacking_bytes: u64,
    /// False if `lacking_bytes` is an upper bound.
    lacking_is_exact: bool,
    /// The causes, main cause first.
    causes: Vec<CauseJson>,
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
    /// Holders of `allocated_bytes`, by line.
    holders: Vec<HolderJson>,
    /// Free memory in holes between blocks; each hole counts once.
    pinned_bytes: u64,
    /// The lines of the blocks next to these holes, most bytes first. A hole between blocks of two lines counts for both.
    pinned: Vec<PinJson>,
}

/// Failed requests without explanations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "UnexplainedOoms"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "UnexplainedOoms"))]
pub(super) struct UnexplainedOomsJson {
    first: FailedRequestJson,
    last: FailedRequestJson,
    largest: FailedRequestJson,
}

/// A failed request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FailedRequest"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "FailedRequest"))]
struct FailedRequestJson {
    event: usize,
    time_us: Option<i64>,
    requested_bytes: u64,
    /// Null if it was not recorded.
    device_free_bytes: Option<u64>,
}

impl UnexplainedOomsJson {
    pub(super) fn of(ooms: &UnexplainedOoms) -> Self {
        let request = |of: &FailedRequest| FailedRequestJson {
            event: of.event,
            time_us: of.time_us,
            requested_bytes: of.bytes,
            device_free_bytes: of.device_free,
        };
        Self { first: request(&ooms.first), last: request(&ooms.last), largest: request(&ooms.largest) }
    }
}

/// One cause of a failed request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "OutOfMemoryCause"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "OomCause"))]
pub(super) struct CauseJson {
    cause: &'static str,
    bytes: u64,
    /// Whether the request would have succeeded without it.
    decisive: bool,
    /// For a leak: the line; else null.
    line: Option<String>,
    /// For a leak: its growth per step; null if it is unknown.
    bytes_per_step: Option<u64>,
}

/// A line whose blocks keep free memory apart.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Pin"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Pin"))]
pub(super) struct PinJson {
    key: String,
    /// Whether the blocks were live before recording began.
    preexisting: bool,
    /// Bytes of the holes next to its blocks; each hole counts once.
    bytes: u64,
    holes: u64,
    /// The part of `bytes` in segments without blocks of other lines.
    alone_bytes: u64,
    /// The largest hole without these blocks.
    joined_bytes: u64,
    /// The number of its blocks next to these holes.
    blocks: u64,
    block_bytes: u64,
}

impl Builder<'_> {
    pub(super) fn oom(&self, o: &OomExplanation) -> OomJson {
        let StackJson { frames: stack, left_out } = self.stack(o.stack);
        OomJson {
            event: o.event,
            time_us: o.time_us,
            requested_bytes: o.request.bytes,
            stream: o.request.stream,
            device_free_bytes: o.device_free,
            allocated_bytes: o.counters.allocated,
            active_bytes: o.counters.active,
            reserved_bytes: o.counters.reserved,
            reserved_unused_bytes: o.fragmentation.external,
            usable_bytes: o.fragmentation.usable,
            unusable: unusable(&o.fragmentation),
            largest_free_block: o.fragmentation.largest.map(free_block),
            at_limit: o.at_limit,
            enough_in_total: o.enough_in_total(),
            missing_bytes: o.missing(),
            device_total_bytes: o.device_total,
            lacking_bytes: o.causes.lacking,
            lacking_is_exact: o.causes.is_exact,
            causes: o.causes.all.iter().map(|cause| self.cause(cause)).collect(),
            stack,
            frames_left_out: left_out,
            holders: self.holders(&o.holders, self.top),
            pinned_bytes: o.pins.bytes,
            pinned: o
                .pins
                .lines
                .iter()
                .take(self.top.unwrap_or(usize::MAX))
                .map(|pin| self.pin(pin))
                .collect(),
        }
    }

    fn cause(&self, cause: &OomCause) -> CauseJson {
        let line = match cause.kind {
            OomCauseKind::Leak(line) => Some(self.names.frame(line).into()),
            _ => None,
        };
        CauseJson {
            cause: name(cause.kind),
            bytes: cause.bytes,
            decisive: cause.is_decisive,
            line,
            bytes_per_step: cause.per_step,
        }
    }

    fn pin(&self, pin: &Pin) -> PinJson {
        PinJson {
            key: self.names.key(&pin.key).into(),
            preexisting: pin.origin != Origin::Recorded,
            bytes: pin.bytes,
            holes: pin.holes,
            alone_bytes: pin.alone,
            joined_bytes: pin.joined,
            blocks: pin.blocks,
            block_bytes: pin.block_bytes,
        }
    }
}

/// The JSON name of a cause.
fn name(kind: OomCauseKind) -> &'static str {
    match kind {
        OomCauseKind::Leak(_) => "leak",
        OomCauseKind::Size => "size",
        OomCauseKind::Outside => "outside",
        OomCauseKind::Limit => "limit",
        OomCauseKind::Rounding => "rounding",
        OomCauseKind::Unsplit => "max_split_size",
        OomCauseKind::Collection => "garbage_collection",
        OomCauseKind::Pending => "pending",
        OomCauseKind::OtherSize => "other_size_class",
        OomCauseKind::OtherPool => "other_pool",
        OomCauseKind::OtherStream => "other_stream",
        OomCauseKind::IdleStream => "idle_stream",
        OomCauseKind::TooSmall => "fragmentation",
    }
}
