//! Free memory at a moment: the holes, and the blocks that keep them from merging.

use serde::Serialize;

use crate::columns::{F64s, U8s, U32s};

/// The free blocks at a moment, largest first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Holes {
    pub(crate) moment: usize,
    /// The request of the event right before the moment; null if it was not a request.
    pub(crate) asked: Option<Asked>,
    /// The number of all holes, and their total bytes. The columns have only the largest.
    pub(crate) count: usize,
    pub(crate) total: u64,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) tags: U32s,
    /// 1 if it is a whole segment, which can be returned to the device.
    pub(crate) whole: U8s,
    /// Why the hole cannot serve the request: a position in `reasons`, or the length of `reasons` if it can.
    pub(crate) why: U8s,
    pub(crate) reasons: Vec<&'static str>,
    /// The allocations before and after the hole.
    pub(crate) before: U32s,
    pub(crate) after: U32s,
    /// The amount of free memory between blocks, in a sentence; empty if there is none.
    pub(crate) pinned: String,
    /// The lines that pin it, most pinned bytes first.
    pub(crate) pins: Vec<Pin>,
    /// The number of further lines.
    pub(crate) more_pins: usize,
}

/// The request of an event.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Asked {
    pub(crate) event: usize,
    /// After rounding.
    pub(crate) bytes: u64,
    pub(crate) failed: bool,
    /// The device's free bytes, if the request failed.
    pub(crate) device_free: Option<u64>,
    /// The position of the largest hole that would have served the request if it were large enough.
    pub(crate) largest: Option<usize>,
}

/// A line whose blocks keep free memory from merging.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "PinningLine"))]
pub(crate) struct Pin {
    /// The finding in a sentence.
    pub(crate) told: String,
    pub(crate) line: String,
    pub(crate) bytes: u64,
    /// The size of the largest hole without its blocks.
    pub(crate) joined: u64,
    /// The stack of its largest block.
    pub(crate) stack: u32,
}

/// The age of a hole.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HoleSince {
    /// The moment since which all of it is free.
    pub(crate) since: usize,
    /// The last allocation in this range; null if the range was reserved at that moment.
    pub(crate) allocation: Option<u32>,
    /// The stack of that allocation's free.
    pub(crate) free_stack: u32,
}
