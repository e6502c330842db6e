//! Events that allocate device memory or release it.

use vramscope_trace::{Action, DeviceTrace, Event};

/// Whether the allocator takes memory from the device: a segment, or pages mapped into an expandable segment.
pub(crate) fn is_growth(action: Action) -> bool {
    matches!(action, Action::SegmentAlloc | Action::SegmentMap)
}

/// Whether the allocator releases memory to the device.
pub(crate) fn is_release(action: Action) -> bool {
    matches!(action, Action::SegmentFree | Action::SegmentUnmap)
}

/// Returns the events of `device` that change the reserved bytes, with their indices.
pub(crate) fn segment_events(
    device: &DeviceTrace,
) -> impl DoubleEndedIterator<Item = (usize, Event)> + use<'_> {
    let events = &device.events;
    let is_of_segments = |action: Action| is_growth(action) || is_release(action);
    let numbers = events.actions().iter().enumerate().filter(move |&(_, &action)| is_of_segments(action));
    numbers.map(|(number, _)| (number, events.get(number)))
}
