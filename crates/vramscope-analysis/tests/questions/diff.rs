//! Comparisons of two recordings, event by event.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use vramscope_analysis::{Both, Cancel, DeviceDiff, DeviceHistory, Frames, History};
use vramscope_trace::{Action, Trace};

use crate::{at_line, defaults, event, recording, segment};

fn diff(a: Vec<Value>, b: Vec<Value>) -> DeviceDiff {
    let [a, b] = [a, b].map(|events| recording(events, Vec::new(), defaults()));
    of(&a, &b)
}

fn of(a: &Arc<Trace>, b: &Arc<Trace>) -> DeviceDiff {
    let frames = Both { a: Frames::of(a), b: Frames::of(b) };
    let histories = Both { a: History::replayed(a, 0), b: History::replayed(b, 0) };
    let a = DeviceHistory { history: &histories.a, frames: &frames.a };
    let b = DeviceHistory { history: &histories.b, frames: &frames.b };
    DeviceDiff::of(Both { a, b }, Both::default(), &Cancel::default()).unwrap()
}

/// A block that is allocated and freed.
fn block(address: u64, size: u64) -> Vec<Value> {
    ["alloc", "free_requested", "free_completed"].map(|action| event(action, address, size)).to_vec()
}

/// An event on a stream other than the default one.
fn on_stream(stream: u64, mut event: Value) -> Value {
    event["stream"] = stream.into();
    event
}

#[test]
fn addresses_and_lines_do_not_count() {
    let a = vec![at_line("alloc", 0x1000, 512, 3), at_line("free_requested", 0x1000, 512, 4)];
    let b = vec![at_line("alloc", 0x9000, 512, 30), at_line("free_requested", 0x9000, 512, 40)];
    let diff = diff(a, b);
    assert!(diff.is_same() && diff.has_same_events());
    assert_eq!((diff.events, diff.same_at_start, diff.alike_at_end), (Both { a: 2, b: 2 }, 2, 0));
    assert_eq!(diff.changed, []);
}

#[test]
fn events_differ_if_they_free_different_blocks() {
    let two = |first: u64| {
        let freed =
            [("free_requested", first), ("free_completed", first)].map(|(action, at)| event(action, at, 512));
        [vec![event("alloc", 0x1000, 512), event("alloc", 0x2000, 512)], freed.to_vec()].concat()
    };
    let diff = diff(two(0x1000), two(0x2000));
    assert!(!diff.has_same_events());
    assert_eq!((diff.same_at_start, diff.alike_at_end), (2, 2));
    // The same number of bytes was allocated and freed.
    assert_eq!(diff.changed, []);
}

#[test]
fn streams_are_compared_by_order_and_not_by_address() {
    let on = |streams: [u64; 2]| {
        let events = [(0x1000, streams[0]), (0x2000, streams[1])];
        events.map(|(at, stream)| on_stream(stream, event("alloc", at, 512))).to_vec()
    };
    assert!(diff(on([0, 0x7f01]), on([0, 0x55aa])).is_same());
    assert_eq!(diff(on([0, 0x7f01]), on([0, 0])).same_at_start, 1);
}

#[test]
fn events_of_one_recording_alone_are_reported_with_the_first_of_them() {
    let same = || block(0x1000, 1024);
    let a = [same(), block(0x2000, 512), same()].concat();
    let b = [same(), block(0x2000, 2048), block(0x3000, 2048), same()].concat();
    let diff = diff(a, b);
    assert_eq!((diff.same_at_start, diff.alike_at_end), (3, 3));
    let told = diff.changed.iter().map(|c| (c.action, c.size, c.count, c.first));
    let never = None;
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (Action::Alloc, 2048, Both { a: 0, b: 2 }, Both { a: never, b: Some(3) }),
            (Action::FreeRequested, 2048, Both { a: 0, b: 2 }, Both { a: never, b: Some(4) }),
            (Action::Alloc, 512, Both { a: 1, b: 0 }, Both { a: Some(3), b: never }),
            (Action::FreeRequested, 512, Both { a: 1, b: 0 }, Both { a: Some(4), b: never }),
        ]
    );
}

#[test]
fn recordings_with_different_end_states_differ() {
    let recorded = |reserved| {
        let held = segment(0x10_0000, reserved, "small", &[(0x10_0000, 512, 512, "active_allocated")]);
        recording(vec![event("alloc", 0x10_0000, 512)], vec![held], defaults())
    };
    let (a, b) = (recorded(2 << 20), recorded(4 << 20));
    let diff = of(&a, &b);
    assert!(diff.has_same_events() && !diff.is_same());
    assert_eq!(diff.end.map(|end| end.reserved), Both { a: 2 << 20, b: 4 << 20 });
}

proptest! {
    /// All inserted events are found: the common start and end are not longer than they really are.
    #[test]
    fn inserted_events_are_found(
        before in prop::collection::vec(1_u64..5, 0..6),
        more in prop::collection::vec(5_u64..9, 1..6),
        after in prop::collection::vec(1_u64..5, 0..6),
    ) {
        let events = |sizes: &[u64]| -> Vec<Value> {
            sizes.iter().zip(1..).flat_map(|(&size, at)| block(at << 20, size * 512)).collect()
        };
        let a = [&before[..], &after].concat();
        let b = [&before[..], &more, &after].concat();
        let diff = diff(events(&a), events(&b));
        prop_assert_eq!(diff.same_at_start, 3 * before.len());
        prop_assert_eq!(diff.alike_at_end, 3 * after.len());
        let bytes: u64 = diff.changed.iter().map(|c| c.size * (c.count.b - c.count.a) as u64).sum();
        // One allocation and one free request each.
        prop_assert_eq!(bytes, more.iter().sum::<u64>() * 512 * 2);
    }
}
