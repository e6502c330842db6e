//! Free memory at a moment: the holes, and what keeps them from joining.

use serde::Serialize;

use crate::columns::{F64s, U8s, U32s};

/// The free blocks at a moment, the largest first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Holes {
    pub(crate) moment: usize,
    /// What the event right before the moment asked for; null where it asked for nothing.
    pub(crate) asked: Option<Asked>,
    /// How many holes there are, and the bytes of all; those in the columns are the largest.
    pub(crate) count: usize,
    pub(crate) total: u64,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) tags: U32s,
    /// 1 where it is a whole segment, which can go back to the device.
    pub(crate) whole: U8s,
    /// Why it cannot serve what was asked for: a position in `reasons`, which is the length of `reasons` where it could.
    pub(crate) why: U8s,
    pub(crate) reasons: Vec<&'static str>,
    /// The allocations in front of it and behind it.
    pub(crate) before: U32s,
    pub(crate) after: U32s,
    /// How much lies between blocks, in a sentence; empty where nothing does.
    pub(crate) pinned: String,
    /// The lines that pin it, those that pin most first.
    pub(crate) pins: Vec<Pin>,
    /// How many more lines do.
    pub(crate) more_pins: usize,
}

/// A request of an event.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Asked {
    pub(crate) event: usize,
    /// After rounding.
    pub(crate) bytes: u64,
    pub(crate) failed: bool,
    /// What the device had free, where the request failed.
    pub(crate) device_free: Option<u64>,
    /// The largest hole that the request could have come from if only it were large enough: its position among the holes.
    pub(crate) largest: Option<usize>,
}

/// A line whose blocks keep free memory from joining.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "PinningLine"))]
pub(crate) struct Pin {
    /// The same in a sentence.
    pub(crate) told: String,
    pub(crate) line: String,
    pub(crate) bytes: u64,
    /// The largest hole without its blocks.
    pub(crate) joined: u64,
    /// The stack of the largest of its blocks.
    pub(crate) stack: u32,
}

/// How long a hole has been there.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct HoleSince {
    /// The moment since which all of it is free.
    pub(crate) since: usize,
    /// The last allocation that lay there; null where it was reserved then.
    pub(crate) allocation: Option<u32>,
    /// Where that was freed.
    pub(crate) free_stack: u32,
}
