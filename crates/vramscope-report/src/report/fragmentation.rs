//! The section about fragmentation: reserved memory that is not in use.

use serde::Serialize;
use vramscope_analysis::{Fragmentation, FreeBlock, Summary, Unusable, UnusableBlocks};
use vramscope_basics::units::{bytes, counted};
use vramscope_trace::{PoolId, SegmentKind};

use crate::text::page::Page;

/// Fragmentation at the peak and at the end; null if nothing was recorded.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Fragmentations"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Fragmentations"))]
pub(crate) struct FragmentationsJson {
    pub(crate) at_peak: Option<FragmentationJson>,
    pub(crate) at_end: Option<FragmentationJson>,
}

/// Reserved memory that is not usable.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Fragmentation"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Fragmentation"))]
pub(crate) struct FragmentationJson {
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
pub(crate) struct UnusableJson {
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
pub(crate) enum WhyJson {
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
pub(crate) struct FreeBlockJson {
    address: u64,
    bytes: u64,
    stream: u64,
    kind: &'static str,
    pool: Option<[u64; 2]>,
}

pub(crate) fn fragmentation(f: &Fragmentation) -> FragmentationJson {
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

pub(crate) fn unusable(f: &Fragmentation) -> Vec<UnusableJson> {
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

pub(crate) fn free_block(b: FreeBlock) -> FreeBlockJson {
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

impl Page<'_> {
    pub(crate) fn fragmentation(&mut self, s: &Summary) {
        let at_end = s.fragmentation_at_end.as_ref().filter(|e| s.moment != e.moment);
        let here = if at_end.is_some() { "at this event" } else { "at the end" };
        let moments = [(here, s.fragmentation.as_ref()), ("at the end", at_end)];
        if moments.iter().all(|(_, f)| f.is_none()) {
            return;
        }
        self.heading("Fragmentation");
        for (when, f) in moments {
            let Some(f) = f else { continue };
            let rounding = match s.quality.missing.seen_from_outside {
                true => String::new(),
                false => format!("{} lost to rounding inside blocks; ", bytes(f.internal)),
            };
            let text = format!(
                "{when}: {rounding}{} reserved and free, {} of it in whole segments, which the allocator can release when needed. {}",
                bytes(f.external),
                bytes(f.whole_segments),
                usable_words(f)
            );
            self.words(2, &text);
        }
    }
}

/// The part of the free memory that one more request could use, in a sentence.
fn usable_words(f: &Fragmentation) -> String {
    let asked = bytes(f.request.bytes);
    if f.external == 0 {
        return String::new();
    }
    format!(
        "One more request of {asked}, the largest of the run, could use {} of it but not the other {}; the largest of {} is {}.",
        bytes(f.usable),
        bytes(f.unusable_bytes()),
        counted(f.free_blocks as u64, "free block"),
        f.largest.map(|b| bytes(b.size)).unwrap_or_default()
    )
}
