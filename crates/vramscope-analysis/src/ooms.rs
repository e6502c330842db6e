//! Every out-of-memory, explained in numbers.

use vramscope_trace::{Action, StackId};

use crate::counters::Counters;
use crate::fragmentation::{Fragmentation, Request};
use crate::frames::Frames;
use crate::history::History;
use crate::holders::{By, Holder, group};
use crate::layout::Layout;
use crate::moment::Moment;

/// One failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The event's number.
    pub event: usize,
    /// Microseconds since the Unix epoch, where recorded.
    pub time_us: Option<i64>,
    /// What was asked for, after rounding.
    pub request: Request,
    /// Bytes the driver still had free, as the allocator asked it.
    pub device_free: u64,
    /// The device had room for it: a limit on reserved bytes stood in the way.
    pub at_limit: bool,
    /// What the allocator held.
    pub counters: Counters,
    /// Why none of its free memory could serve the request.
    pub fragmentation: Fragmentation,
    /// Where the request was made.
    pub stack: Option<StackId>,
    /// Who held the allocated bytes, by line, most first.
    pub holders: Vec<Holder>,
}

impl OutOfMemory {
    /// Free on the device and reserved without use together would have been enough.
    pub fn enough_in_total(&self) -> bool {
        self.device_free.saturating_add(self.fragmentation.external) >= self.request.bytes
    }

    /// Bytes missing even if all that is reserved without use could be used.
    pub fn missing(&self) -> u64 {
        self.request.bytes.saturating_sub(self.device_free.saturating_add(self.fragmentation.external))
    }
}

/// How many out-of-memory events are explained one by one; a program that catches them may have thousands.
pub const MOST_EXPLAINED: usize = 20;

/// The out-of-memory events of a recording, oldest first: the first [`MOST_EXPLAINED`], and how many more.
pub fn ooms(history: &History<'_>, frames: &Frames) -> (Vec<OutOfMemory>, usize) {
    let actions = history.device.events.actions().iter().enumerate();
    let mut events = actions.filter(|&(_, &a)| a == Action::Oom).map(|(i, _)| i);
    let explained =
        events.by_ref().take(MOST_EXPLAINED).map(|event| explain(history, frames, event)).collect();
    (explained, events.count())
}

fn explain(history: &History<'_>, frames: &Frames, event: usize) -> OutOfMemory {
    let e = history.device.events.get(event);
    let tags = history.trace.tags.get(e.tags);
    let request = Request { bytes: e.size, stream: tags.stream, pool: tags.pool };
    let layout = Layout::at(history, Moment::after(event));
    OutOfMemory {
        event,
        time_us: e.time_us,
        request,
        device_free: e.address,
        at_limit: history.policy.segment_size(e.size) <= e.address,
        counters: layout.counters(),
        fragmentation: Fragmentation::in_layout(history, &layout, request),
        stack: e.stack,
        holders: group(history, frames, layout.allocated(), None, By::Line),
    }
}
