//! The out-of-memory events of a recording, explained.

use vramscope_trace::Action;

use crate::fragmentation::{Fragmentation, Request};
use crate::frames::Frames;
use crate::history::History;
use crate::holders::{By, group};
use crate::layout::Layout;
use crate::moment::Moment;
use crate::out_of_memory::{OutOfMemory, is_at_limit};
use crate::pins::Pins;

/// How many out-of-memory events are explained one by one; a program that catches them may have thousands.
pub const MOST_EXPLAINED: usize = 20;

/// The out-of-memory events of a recording, oldest first: the first [`MOST_EXPLAINED`], and how many more.
pub fn ooms(history: &History, frames: &Frames) -> (Vec<OutOfMemory>, usize) {
    let actions = history.device().events.actions().iter().enumerate();
    let mut events = actions.filter(|&(_, &a)| a == Action::Oom).map(|(i, _)| i);
    let explained =
        events.by_ref().take(MOST_EXPLAINED).map(|event| explain(history, frames, event)).collect();
    (explained, events.count())
}

fn explain(history: &History, frames: &Frames, event: usize) -> OutOfMemory {
    let e = history.device().events.get(event);
    let tags = history.trace().tags.get(e.tags);
    let request = Request { bytes: e.size, stream: tags.stream, pool: tags.pool };
    let layout = Layout::at(history, Moment::after(event));
    OutOfMemory {
        event,
        time_us: e.time_us,
        request,
        device_free: e.address,
        at_limit: is_at_limit(&history.policy, e.size, e.address),
        counters: layout.counters(),
        fragmentation: Fragmentation::in_layout(history, &layout, request),
        pins: Pins::at(history, frames, &layout),
        stack: e.stack,
        holders: group(history, frames, layout.allocated(), None, By::Line),
    }
}
