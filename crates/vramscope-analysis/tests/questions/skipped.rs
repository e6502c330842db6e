//! Recordings with left-out kinds of events.

use std::path::Path;
use std::sync::Arc;

use vramscope_analysis::{DeviceReplay, Frames, History, Peaks, ReplayOptions};
use vramscope_trace::{Action, Events, Trace, formats};

use Action::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};

const SEGMENTS: [Action; 4] = [SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap];

fn example(name: &str) -> Arc<Trace> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    formats::read(std::fs::File::open(path).unwrap()).unwrap().trace
}

/// The recording without these kinds of events.
fn without(trace: &Arc<Trace>, kinds: &[Action]) -> Arc<Trace> {
    let mut trace = trace.clone();
    for device in &mut Arc::make_mut(&mut trace).devices {
        device.events = device.events.iter().filter(|e| !kinds.contains(&e.action)).collect::<Events>();
    }
    trace
}

fn skipped(trace: &Arc<Trace>) -> Vec<Action> {
    History::replayed(trace, 0).quality.missing.skipped.iter().collect()
}

fn peaks(trace: &Arc<Trace>) -> Peaks {
    History::replayed(trace, 0).peaks()
}

fn replay(trace: &Arc<Trace>) -> DeviceReplay {
    let options = ReplayOptions::default();
    DeviceReplay::of(trace, 0, &Frames::of(trace), &options, &|| {}).unwrap()
}

#[test]
fn a_complete_recording_has_no_skipped_kinds_of_events() {
    for name in ["leak.pickle", "oom.pickle"] {
        let trace = example(name);
        assert_eq!(skipped(&trace), [], "{name}");
        assert_eq!(replay(&trace).reproduced, Some(true), "{name}");
    }
}

#[test]
fn skipped_free_requests_are_reported_and_leave_the_peaks_unchanged() {
    for name in ["leak.pickle", "oom.pickle"] {
        let whole = example(name);
        let trace = without(&whole, &[FreeRequested]);
        assert_eq!(skipped(&trace), [FreeRequested], "{name}");
        let (ours, all) = (peaks(&trace), peaks(&whole));
        assert_eq!(ours.requested.bytes, all.requested.bytes, "{name}");
        assert_eq!(ours.allocated.bytes, all.allocated.bytes, "{name}");
    }
}

#[test]
fn completions_left_out_do_not_pile_memory_up() {
    let whole = example("leak.pickle");
    let trace = without(&whole, &[FreeCompleted]);
    assert_eq!(skipped(&trace), [FreeCompleted]);
    assert_eq!(peaks(&trace).allocated.bytes, peaks(&whole).allocated.bytes);
    assert_eq!(peaks(&trace).active.bytes, peaks(&whole).active.bytes);
    assert!(!History::replayed(&trace, 0).quality.sizes_exact());
}

/// An out of memory releases segments; the allocations in them are then in no known segment.
#[test]
fn a_replay_without_segment_events_follows_requests_and_claims_no_reproduction() {
    let whole = example("oom.pickle");
    for kinds in [SEGMENTS.to_vec(), [&SEGMENTS[..], &[FreeRequested]].concat()] {
        let trace = without(&whole, &kinds);
        assert!(skipped(&trace).contains(&SegmentFree), "{:?}", skipped(&trace));
        assert_eq!(peaks(&trace).requested.bytes, peaks(&whole).requested.bytes);
        let answer = replay(&trace);
        assert_eq!((answer.reproduced, answer.first_difference), (None, None));
        assert!(!answer.limitations.is_empty());
        // The size of the device is unknown, so the failed request succeeds and is freed.
        let (ours, all) = (&answer.asked.outcome, replay(&whole).asked.outcome);
        assert_eq!(ours.rescued, 1);
        assert!(ours.statistics.requested.peak >= all.statistics.requested.peak);
    }
}

/// Segments are allocated with the first request in them; then the rest of the recording is reproduced.
#[test]
fn segments_without_an_event_are_allocated_at_their_first_use() {
    let whole = example("oom.pickle");
    let trace = without(&whole, &[SegmentAlloc]);
    assert_eq!(skipped(&trace), [SegmentAlloc]);
    assert_eq!(peaks(&trace).allocated.bytes, peaks(&whole).allocated.bytes);
    let answer = replay(&trace);
    assert_eq!((answer.reproduced, answer.first_difference, answer.is_unchecked), (None, None, false));
    let kinds: Vec<Action> = answer.skipped.iter().collect();
    assert_eq!(kinds, [SegmentAlloc]);
    assert_eq!(answer.asked.outcome.statistics.allocated.peak, peaks(&whole).allocated.bytes);
}

/// If memory was live before the first event, some segments existed and some were allocated later.
#[test]
fn segments_allocated_during_a_late_recording_are_distinguished_from_earlier_ones() {
    let mut late = example("oom.pickle");
    let device = &mut Arc::make_mut(&mut late).devices[0];
    let n = device.events.len();
    device.events = device.events.iter().skip(n / 4).collect();
    assert_eq!(replay(&late).reproduced, Some(true));
    let answer = replay(&without(&late, &[SegmentAlloc]));
    assert_eq!((answer.reproduced, answer.first_difference, answer.is_unchecked), (None, None, false));
    assert_eq!(answer.skipped.iter().collect::<Vec<_>>(), [SegmentAlloc]);
}

/// An end state with only some segments does not show that events were left out.
#[test]
fn segments_missing_in_the_end_state_are_not_reported_as_freed() {
    let mut trace = without(&example("leak.pickle"), &SEGMENTS);
    Arc::make_mut(&mut trace).devices[0].segments.truncate(2);
    assert_eq!(skipped(&trace), []);
}

#[test]
fn a_recording_without_a_segment_event_says_so() {
    let whole = example("leak.pickle");
    let says = |trace: &Arc<Trace>| History::replayed(trace, 0).quality.inferred.no_segment_events;
    assert!(!says(&whole));
    assert!(says(&without(&whole, &SEGMENTS)));
    assert!(says(&without(&whole, &[&SEGMENTS[..], &[FreeRequested]].concat())));
    // If the kind is reported as left out, it is not reported twice.
    assert!(!says(&without(&example("oom.pickle"), &SEGMENTS)));
}

#[test]
fn no_number_of_a_recording_without_allocations_is_exact() {
    let whole = example("leak.pickle");
    for kinds in [vec![Alloc], vec![Alloc, FreeRequested, FreeCompleted]] {
        let trace = without(&whole, &kinds);
        assert!(skipped(&trace).contains(&Alloc));
        assert!(!History::replayed(&trace, 0).quality.sizes_exact());
        assert_eq!(replay(&trace).reproduced, None);
    }
    assert!(skipped(&without(&whole, &[FreeRequested, FreeCompleted])).contains(&FreeRequested));
}

/// Kinds of events that possibly never happened are not reported as left out.
#[test]
fn kinds_that_need_not_have_happened_are_not_missed() {
    let whole = example("leak.pickle");
    let n = whole.devices[0].events.len();
    let mut late = whole.clone();
    Arc::make_mut(&mut late).devices[0].events = whole.devices[0].events.iter().skip(n - n / 4).collect();
    assert_eq!(skipped(&late), []);
}
