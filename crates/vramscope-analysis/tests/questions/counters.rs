//! The counters at every moment, compared with a computation by hand that knows the whole run.

use proptest::prelude::*;
use serde_json::Value;
use vramscope_analysis::{By, Counters, Frames, History, Moment, holders_at};

use crate::{at_line, defaults, event, recording, segment};

const SEGMENT: u64 = 2 << 20;
pub(crate) const SLOTS: u64 = 16;

/// A change of a memory slot; changes that are impossible in the slot's state are skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Alloc { slot: u64, size: u64 },
    Request { slot: u64 },
    Complete { slot: u64 },
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS;
    prop_oneof![
        3 => (slot.clone(), 1u64..60_000).prop_map(|(slot, size)| Step::Alloc { slot, size }),
        2 => slot.clone().prop_map(|slot| Step::Request { slot }),
        2 => slot.prop_map(|slot| Step::Complete { slot }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Slot {
    Free,
    Allocated(u64),
    Pending(u64),
}

/// Applies the steps to slots of one segment; returns the events and the state after each.
pub(crate) fn simulate(steps: &[Step]) -> (Vec<Value>, Vec<[Slot; SLOTS as usize]>) {
    let mut slots = [Slot::Free; SLOTS as usize];
    let (mut events, mut states) = (Vec::new(), vec![slots]);
    for &step in steps {
        let (action, slot, size) = match step {
            Step::Alloc { slot, size } if slots[slot as usize] == Slot::Free => {
                slots[slot as usize] = Slot::Allocated(size);
                ("alloc", slot, size)
            }
            Step::Request { slot } => match slots[slot as usize] {
                Slot::Allocated(size) => {
                    slots[slot as usize] = Slot::Pending(size);
                    ("free_requested", slot, size)
                }
                _ => continue,
            },
            Step::Complete { slot } => match slots[slot as usize] {
                Slot::Pending(size) => {
                    slots[slot as usize] = Slot::Free;
                    ("free_completed", slot, size)
                }
                _ => continue,
            },
            Step::Alloc { .. } => continue,
        };
        events.push(at_line(action, SEGMENT + slot * (SEGMENT / SLOTS), size, slot as u32 % 3));
        states.push(slots);
    }
    (events, states)
}

fn counters(slots: &[Slot]) -> Counters {
    let mut c = Counters { reserved: SEGMENT, ..Counters::default() };
    for slot in slots {
        let (Slot::Allocated(size) | Slot::Pending(size)) = *slot else { continue };
        c.requested += size;
        c.active += size.next_multiple_of(512);
        if matches!(slot, Slot::Allocated(_)) {
            c.allocated += size.next_multiple_of(512);
        }
    }
    c
}

pub(crate) fn end_state(slots: &[Slot]) -> Vec<Value> {
    let mut blocks = Vec::new();
    for (i, slot) in slots.iter().enumerate() {
        let address = SEGMENT + i as u64 * (SEGMENT / SLOTS);
        match *slot {
            Slot::Free => {}
            Slot::Allocated(size) => {
                blocks.push((address, size.next_multiple_of(512), size, "active_allocated"));
            }
            Slot::Pending(size) => {
                blocks.push((address, size.next_multiple_of(512), size, "active_pending_free"));
            }
        }
    }
    vec![segment(SEGMENT, SEGMENT, "small", &blocks)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A recording that begins anywhere counts the memory that was live before it, at every moment.
    #[test]
    fn counters_are_absolute_wherever_recording_begins(
        steps in proptest::collection::vec(step(), 1..120), cut in 0usize..120,
    ) {
        let (events, states) = simulate(&steps);
        let cut = cut.min(events.len());
        // A completion whose request was cut off is recognized only if the recording contains requests.
        let kept = &events[cut..];
        prop_assume!(kept.is_empty() || kept.iter().any(|e| e["action"] == "free_requested") || !kept.iter().any(|e| e["action"] == "free_completed"));

        let trace = recording(kept.to_vec(), end_state(states.last().unwrap()), defaults());
        let history = History::of(&trace, 0);
        let frames = Frames::of(&trace);
        let walked: Vec<(Moment, Counters)> = history.walk().collect();
        prop_assert_eq!(walked.len(), kept.len() + 1);
        for (&(moment, walked), state) in walked.iter().zip(&states[cut..]) {
            prop_assert_eq!(walked, counters(state));
            prop_assert_eq!(history.counters_at(moment), walked);
            let held: u64 = holders_at(&history, &frames, moment, By::Line).iter().map(|h| h.bytes).sum();
            prop_assert_eq!(held, walked.allocated);
        }
        let peak = states[cut..].iter().map(|s| counters(s).allocated).max();
        prop_assert_eq!(Some(history.peaks().allocated.bytes), peak);
        prop_assert!(history.quality.sizes_exact());
    }

    /// Events that contradict each other and the end state in any way still give consistent counters.
    #[test]
    fn contradictory_events_give_consistent_counters(
        events in proptest::collection::vec((0usize..8, 0u64..12, 0u64..4), 0..60),
        blocks in proptest::collection::vec((0u64..12, 0usize..3), 0..6),
    ) {
        const ACTIONS: [&str; 8] = ["alloc", "alloc", "free_requested", "free_completed", "free", "segment_alloc", "segment_free", "segment_unmap"];
        const STATES: [&str; 3] = ["active_allocated", "active_pending_free", "inactive"];
        let events = events.into_iter().map(|(action, at, size)| event(ACTIONS[action], at << 20, size << 20)).collect();
        let blocks: Vec<_> = blocks.into_iter().map(|(at, state)| (at << 20, 1 << 20, 100, STATES[state])).collect();
        let trace = recording(events, vec![segment(0, 12 << 20, "large", &blocks)], defaults());
        let history = History::of(&trace, 0);
        for (moment, walked) in history.walk() {
            let counted = history.counters_at(moment);
            prop_assert_eq!(walked, counted);
        }
    }
}

#[test]
fn contradictions_of_the_trace_and_the_end_state_are_counted() {
    // In the trace, the first block is freed and the second is not; in the end state, it is the other way round.
    let events = vec![
        event("alloc", SEGMENT, 100),
        event("alloc", SEGMENT + 512, 100),
        event("free_requested", SEGMENT, 100),
        event("free_completed", SEGMENT, 100),
    ];
    let end = segment(SEGMENT, SEGMENT, "small", &[(SEGMENT, 512, 100, "active_allocated")]);
    let trace = recording(events, vec![end], defaults());
    let quality = History::of(&trace, 0).quality;
    assert_eq!(
        (quality.contradictions.end_state_disagreements, quality.contradictions.end_state_disagreement_bytes),
        (2, 612)
    );
}

#[test]
fn missing_frees_are_counted_and_do_not_pile_up() {
    let events =
        vec![event("alloc", SEGMENT, 512), event("alloc", SEGMENT, 1024), event("alloc", SEGMENT, 512)];
    let trace = recording(events, Vec::new(), defaults());
    let history = History::of(&trace, 0);
    assert_eq!(history.quality.contradictions.lost_events, 2);
    assert_eq!(history.peaks().allocated.bytes, 1024);
    assert!(!history.quality.sizes_exact());
}

/// Whether the ring buffer is reported to have dropped events, for a recording of this many events with an older block at the end
/// that has these frames.
fn dropped(events: u64, frames: &serde_json::Value) -> bool {
    let free = |i: u64| event("free_completed", SEGMENT + i * 512, 512);
    let mut end = segment(SEGMENT, SEGMENT, "small", &[(SEGMENT, 512, 512, "active_allocated")]);
    end["blocks"][0]["frames"] = frames.clone();
    let frees = (1..=events).map(free).collect();
    History::of(&recording(frees, vec![end], defaults()), 0).quality.inferred.probably_overflowed
}

#[test]
fn a_ring_buffer_that_overflowed_is_suspected() {
    let frames = serde_json::json!([{"name": "load", "filename": "/home/user/train.py", "line": 3}]);
    for events in [200, 256, 100_000] {
        assert!(dropped(events, &frames), "{events}");
        // A recording that began late: older blocks have no stack.
        assert!(!dropped(events, &serde_json::json!([])), "{events}");
    }
    // A second recording of one process.
    for events in [1, 64, 201, 7_600] {
        assert!(!dropped(events, &frames), "{events}");
    }
}

#[test]
fn regions_that_begin_before_the_first_event_are_no_sign_of_dropped_events() {
    let free = |i: u64| {
        let mut e = event("free_completed", SEGMENT + i * 512, 512);
        e["time_us"] = (1_000 + i).into();
        e
    };
    let regions = serde_json::json!([{"name": "step", "stage": "START", "device": 0, "time_us": 1}]);
    let mut snapshot =
        serde_json::json!({"segments": [], "device_traces": [(0..201).map(free).collect::<Vec<_>>()]});
    snapshot["external_annotations"] = regions;
    let late = vramscope_trace::formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
    let history = History::of(&late, 0);
    assert!(history.quality.missing.preexisting > 0 && !history.quality.inferred.probably_overflowed);
    assert!(history.trace().annotations.is_some());
}

#[test]
fn a_recorded_overflow_of_the_ring_buffer_is_believed() {
    let snapshot =
        serde_json::json!({"segments": [], "device_traces": [[]], "trace_alloc_overflowed": [true]});
    let told = vramscope_trace::formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
    assert!(History::of(&told, 0).quality.inferred.probably_overflowed);
}
