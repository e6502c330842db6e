//! Free memory at a moment, and the blocks that keep it from merging.

use serde::Serialize;
use vramscope_analysis::{Hole, Layout, Moment, Pins, Request, Unusable};
use vramscope_report::out_of_memory;
use vramscope_trace::{Action, PoolId};

use crate::SessionError;
use crate::questions::columns::{Columns, F64s, NONE, Reply, U8s, U32s, moment, stack};
use crate::questions::device::OpenDevice;
use crate::questions::recording::OpenRecording;

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

/// The maximum number of holes in an answer.
const MOST_HOLES: usize = 1000;
/// The maximum number of lines in an answer.
const MOST_PINS: usize = 100;

/// Why a request cannot use a hole, as the page shows it.
const REASONS: [(Unusable, &str); 5] = [
    (Unusable::TooSmall, "too small"),
    (Unusable::OtherStream, "belongs to another stream"),
    (Unusable::OtherSize, "in the pool for the other size class"),
    (Unusable::OtherPool, "in another pool"),
    (Unusable::NotSplit, "not split because of `max_split_size`"),
];

impl OpenRecording {
    pub(crate) fn holes(&self, device: usize, at: usize) -> Reply<Holes> {
        let device = self.device(device)?;
        let (history, at) = (device.history(), device.moment(at)?);
        let layout = device.layout_at(at);
        let mut holes = layout.holes();
        holes.sort_by_key(|hole| std::cmp::Reverse(hole.free.size));
        let request = device.request(at);
        let mut ranges = device.timeline.reserved_at(at);
        ranges.sort_by_key(|&id| history.reserved[id as usize].address);
        let tags_of = |address: u64| {
            let behind = ranges.partition_point(|&id| history.reserved[id as usize].address <= address);
            behind.checked_sub(1).map_or(0, |n| device.tags.ranges[ranges[n] as usize])
        };
        let why = |hole: &Hole| {
            let (request, _) = request?;
            let why = request.cannot_use(&hole.free, &history.policy)?;
            REASONS.iter().position(|&(reason, _)| reason == why)
        };
        let asked = request.map(|(request, event)| {
            let e = history.device().events.get(event);
            let failed = e.action == Action::Oom;
            let fits_but_for_size = |hole: &Hole| why(hole).is_none_or(|why| why == 0);
            let largest = holes.iter().take(MOST_HOLES).position(fits_but_for_size);
            Asked { event, bytes: request.bytes, failed, device_free: e.device_free(), largest }
        });
        let pins = Pins::at(history, self.session.frames(), &layout);
        let names = self.session.names();
        let shown = || holes.iter().take(MOST_HOLES);
        Columns::answer(|columns| Holes {
            moment: at.index(),
            asked,
            count: holes.len(),
            total: holes.iter().map(|hole| hole.free.size).sum(),
            address: columns.sizes(shown().map(|hole| hole.free.address)),
            bytes: columns.sizes(shown().map(|hole| hole.free.size)),
            tags: columns.u32(shown().map(|hole| tags_of(hole.free.address))),
            whole: columns.u8(shown().map(|hole| hole.free.whole_segment.into())),
            why: columns.u8(shown().map(|hole| why(hole).unwrap_or(REASONS.len()) as u8)),
            reasons: REASONS.map(|(_, words)| words).into(),
            before: columns.u32(shown().map(|hole| hole.before.unwrap_or(NONE))),
            after: columns.u32(shown().map(|hole| hole.after.unwrap_or(NONE))),
            pinned: if pins.lines.is_empty() { String::new() } else { out_of_memory::pinned(&pins) },
            pins: pins
                .lines
                .iter()
                .take(MOST_PINS)
                .map(|pin| Pin {
                    told: out_of_memory::pin(&names, pin),
                    line: names.pin(pin).into(),
                    bytes: pin.bytes,
                    joined: pin.joined,
                    stack: stack(pin.stack),
                })
                .collect(),
            more_pins: pins.lines.len().saturating_sub(MOST_PINS),
        })
    }
}

impl OpenDevice {
    fn layout_at(&self, at: Moment) -> Layout<'_> {
        Layout::of_known(self.history(), at, &self.timeline.reserved_at(at), self.timeline.active_at(at))
    }

    /// The request of the event right before a moment, and the event's index.
    fn request(&self, at: Moment) -> Option<(Request, usize)> {
        let event = at.event()?;
        let history = self.history();
        let e = history.device().events.get(event);
        let bytes = match e.action {
            Action::Oom => e.size,
            Action::Alloc => history.allocations.get(history.subject_number(event)?)?.size,
            _ => return None,
        };
        let tags = &self.tags.table[self.tags_of_event(event) as usize];
        let pool = tags.pool.map(|[a, b]| PoolId(a, b));
        Some((Request { bytes, stream: tags.stream, pool }, event))
    }

    /// The moment since which the hole at `address` exists.
    pub(crate) fn hole(&self, at: usize, address: u64) -> Result<HoleSince, SessionError> {
        let (history, at) = (self.history(), self.moment(at)?);
        let hole = self.layout_at(at).holes().into_iter().find(|hole| hole.free.address == address);
        let Some(hole) = hole else {
            return Err(SessionError::Argument(format!("no free block at {address:#x}")));
        };
        let (since, allocation) = hole.free_since(history, at);
        let freed = allocation.and_then(|id| {
            let event = history.allocations[id as usize].freed.event()?;
            let is_free = history.subject_number(event) == Some(id as usize) && history.has_stacks_of_frees();
            history.device().events.get(event).stack.filter(|_| is_free)
        });
        Ok(HoleSince { since: moment(since) as usize, allocation, free_stack: stack(freed) })
    }
}
