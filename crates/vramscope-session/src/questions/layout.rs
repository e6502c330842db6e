//! Segments and blocks at a moment.

use serde::Serialize;
use vramscope_analysis::Origin;

use crate::questions::columns::{Columns, F64s, Reply, U8s, U32s, moment, stack};
use crate::questions::device::{ByKind, OpenDevice, by_kind};
use crate::questions::tables::kind;

/// Segments and blocks at a moment, both ordered by address. Ranges without a block are free.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Layout {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) segments: LayoutSegments,
    pub(crate) blocks: LayoutBlocks,
}

/// An expandable segment is listed as its mapped ranges; blocks may span adjacent ranges.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LayoutSegments {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 if the segment is expandable.
    pub(crate) expandable: U8s,
    pub(crate) stack: U32s,
    pub(crate) from: U32s,
}

/// The active blocks of a layout.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LayoutBlocks {
    pub(crate) allocation: U32s,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) requested: F64s,
    /// 1 if the block was freed and waits for another stream.
    pub(crate) pending: U8s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// Positions in the device's `purposes`.
    pub(crate) purpose: U8s,
    pub(crate) from: U32s,
    /// 1 if the block was live before recording.
    pub(crate) preexisting: U8s,
}

impl OpenDevice {
    pub(crate) fn layout(&self, at: usize) -> Reply<Layout> {
        let (history, at) = (self.history(), self.moment(at)?);
        let mut ranges = self.timeline.reserved_at(at);
        ranges.sort_by_key(|&id| history.reserved[id as usize].address);
        let mut blocks = self.timeline.active_at(at);
        blocks.sort_by_key(|&id| history.allocations[id as usize].address);
        let segments = || ranges.iter().map(|&id| &history.reserved[id as usize]);
        let active = || blocks.iter().map(|&id| &history.allocations[id as usize]);
        Columns::answer(|columns| Layout {
            moment: at.index(),
            counters: by_kind(self.timeline.counters_at(at)),
            segments: LayoutSegments {
                address: columns.sizes(segments().map(|r| r.address)),
                bytes: columns.sizes(segments().map(|r| r.size)),
                tags: columns.u32(ranges.iter().map(|&id| self.tags.ranges[id as usize])),
                kind: columns.u8(segments().map(|r| kind(r.kind))),
                expandable: columns.u8(segments().map(|r| r.expandable.into())),
                stack: columns.u32(segments().map(|r| stack(r.stack))),
                from: columns.u32(segments().map(|r| moment(r.from))),
            },
            blocks: LayoutBlocks {
                allocation: columns.u32(blocks.iter().copied()),
                address: columns.sizes(active().map(|a| a.address)),
                bytes: columns.sizes(active().map(|a| a.size)),
                requested: columns.sizes(active().map(|a| a.requested)),
                pending: columns.u8(active().map(|a| (!a.is_allocated_at(at)).into())),
                stack: columns.u32(active().map(|a| stack(a.stack))),
                tags: columns.u32(blocks.iter().map(|&id| self.tags.allocations[id as usize])),
                purpose: columns.u8(blocks.iter().map(|&id| self.purposes().allocations[id as usize])),
                from: columns.u32(active().map(|a| moment(a.from))),
                preexisting: columns.u8(active().map(|a| (a.origin != Origin::Recorded).into())),
            },
        })
    }
}
