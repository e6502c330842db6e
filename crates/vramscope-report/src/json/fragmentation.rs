//! JSON of fragmentation: reserved memory that is not in use.

use serde::Serialize;
use vramscope_analysis::{Fragmentation, FreeBlock, Unusable, UnusableBlocks};
use vramscope_trace::{PoolId, SegmentKind};

/// Fragmentation at the peak and at the end; null if nothing was recorded.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Fragmentations"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Fragmentations"))]
pub(super) struct FragmentationsJson {
    pub(super) at_peak: Option<FragmentationJson>,
    pub(super) at_end: Option<FragmentationJson>,
}

/// Reserved memory that is not usable.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Fragmentation"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Fragmentation"))]
pub(super) struct FragmentationJson {
    internal_bytes: u64,
    external_bytes: u64,
    whole_segments_bytes: u64,
    free_blocks: usize,
    largest_free_block: Option<FreeBlockJson>,
    /// The request size that `usable_bytes` and `unusable` apply to.
    request_bytes: u64,
    usable_bytes: u64,
    unusable: Vec<UnusableJson>,
}

/// Free blocks that could not serve a request, grouped by reason.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "UnusableBlocks"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Unusable"))]
pub(super) struct UnusableJson {
    why: WhyJson,
    bytes: u64,
    blocks: usize,
    largest_bytes: u64,
}

/// Why a free block cannot serve a request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Why"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Why"))]
#[serde(rename_all = "snake_case")]
pub(super) enum WhyJson {
    TooSmall,
    OtherStream,
    OtherSizeClass,
    OtherPool,
    MaxSplitSize,
}

/// A free block of a segment.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FreeBlock"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "FreeBlock"))]
pub(super) struct FreeBlockJson {
    address: u64,
    bytes: u64,
    stream: u64,
    kind: &'static str,
    pool: Option<[u64; 2]>,
}

pub(super) fn fragmentation(f: &Fragmentation) -> FragmentationJson {
    FragmentationJson {
        internal_bytes: f.internal,
        external_bytes: f.external,
        whole_segments_bytes: f.whole_segments,
        free_blocks: f.free_blocks,
        largest_free_block: f.largest.map(free_block),
        request_bytes: f.request.bytes,
        usable_bytes: f.usable,
        unusable: unusable(f),
    }
}

pub(super) fn unusable(f: &Fragmentation) -> Vec<UnusableJson> {
    let one = |u: &UnusableBlocks| UnusableJson {
        why: match u.why {
            Unusable::TooSmall => WhyJson::TooSmall,
            Unusable::OtherStream => WhyJson::OtherStream,
            Unusable::OtherSize => WhyJson::OtherSizeClass,
            Unusable::OtherPool => WhyJson::OtherPool,
            Unusable::NotSplit => WhyJson::MaxSplitSize,
        },
        bytes: u.bytes,
        blocks: u.blocks,
        largest_bytes: u.largest.size,
    };
    f.unusable.iter().map(one).collect()
}

pub(super) fn free_block(b: FreeBlock) -> FreeBlockJson {
    FreeBlockJson {
        address: b.address,
        bytes: b.size,
        stream: b.stream,
        kind: match b.kind {
            SegmentKind::Small => "small",
            SegmentKind::Large => "large",
            SegmentKind::Unknown => "unknown",
        },
        pool: b.pool.map(|PoolId(x, y)| [x, y]),
    }
}
