//! Which events take memory from the device, and which give it back.

use vramscope_trace::{Action, DeviceTrace, Event};

/// The allocator takes memory from the device: a segment, or pages mapped into an expandable one.
pub(crate) fn is_growth(action: Action) -> bool {
    matches!(action, Action::SegmentAlloc | Action::SegmentMap)
}

/// The allocator gives memory back to the device.
pub(crate) fn is_release(action: Action) -> bool {
    matches!(action, Action::SegmentFree | Action::SegmentUnmap)
}

/// The events of `device` that change which bytes are reserved, with their numbers.
pub(crate) fn segment_events(
    device: &DeviceTrace,
) -> impl DoubleEndedIterator<Item = (usize, Event)> + use<'_> {
    let events = &device.events;
    let is_of_segments = |action: Action| is_growth(action) || is_release(action);
    let numbers = events.actions().iter().enumerate().filter(move |&(_, &action)| is_of_segments(action));
    numbers.map(|(number, _)| (number, events.get(number)))
}
