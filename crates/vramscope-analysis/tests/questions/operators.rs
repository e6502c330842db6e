//! Traces of `torch.profiler` beside recordings: the example of one run of PyTorch, and changed copies of it.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;
use vramscope_analysis::{AlignedBy, Alignment, Axis, History, Moment, NotAligned};
use vramscope_trace::formats::{self, Reader};
use vramscope_trace::{Action, LaneKind, OperatorSpan, OperatorTrace, StringTable, Trace};

use crate::{defaults, event, recording};

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn recorded() -> Arc<Trace> {
    formats::read(File::open(example("operators.pickle.zst")).unwrap()).unwrap().trace
}

fn traced() -> OperatorTrace {
    Reader::new(File::open(example("operators.json.gz")).unwrap()).read_operators().unwrap()
}

/// Shifts the trace's clock.
fn later(mut trace: OperatorTrace, ns: i64) -> OperatorTrace {
    for span in trace.lanes.iter_mut().flat_map(|lane| &mut lane.spans) {
        span.start_ns += ns;
        span.end_ns += ns;
    }
    trace.memory.iter_mut().for_each(|change| change.at_ns += ns);
    trace
}

/// The history of these events of the recording, with or without their times.
fn part(trace: &Arc<Trace>, events: Range<usize>, keeps_times: bool) -> History {
    let mut trace = (**trace).clone();
    let device = &mut trace.devices[0];
    let kept = device.events.iter().take(events.end).skip(events.start);
    device.events = kept
        .map(|event| vramscope_trace::Event { time_us: event.time_us.filter(|_| keeps_times), ..event })
        .collect();
    History::of(&Arc::new(trace), 0)
}

/// The whole history of the recording.
fn history(trace: &Arc<Trace>) -> History {
    part(trace, 0..usize::MAX, true)
}

/// The event after the second profiled step; another step follows.
const AFTER_TRACE: usize = 345;

fn align(history: &History, trace: &OperatorTrace) -> Result<Alignment, NotAligned> {
    Alignment::of(&[history], trace)
}

const HOUR: i64 = 3_600_000_000_000;

#[test]
fn one_run_has_one_clock() {
    let (history, trace) = (history(&recorded()), traced());
    let aligned = align(&history, &trace).unwrap();
    let allocations = trace.memory.iter().filter(|change| change.bytes > 0).count();
    assert_eq!((aligned.by, aligned.matched, aligned.compared), (AlignedBy::Clock, allocations, allocations));
    assert!(aligned.offset_ns.unwrap().abs() < 10_000, "{:?}", aligned.offset_ns);
}

#[test]
fn only_allocations_that_the_recording_could_have_are_compared() {
    let (recorded, trace) = (recorded(), traced());
    let allocations = trace.memory.iter().filter(|change| change.bytes > 0).count();
    // Every allocation of the trace is in the whole recording, so a part of it lacks only those before and after it.
    for (events, shift, by, matched) in [
        (200..usize::MAX, 0, AlignedBy::Clock, 41),
        (0..300, 0, AlignedBy::Clock, 64),
        (200..300, 0, AlignedBy::Clock, 35),
        (0..300, HOUR, AlignedBy::Sequence, 64),
        (200..300, HOUR, AlignedBy::Sequence, 35),
    ] {
        let history = part(&recorded, events.clone(), true);
        let aligned = align(&history, &later(trace.clone(), shift)).unwrap();
        let found = (aligned.by, aligned.matched, aligned.compared);
        assert_eq!(found, (by, matched, matched), "{events:?} {shift}");
        assert!(matched < allocations);
    }
}

#[test]
fn traces_with_another_clock_are_aligned_by_the_order_of_allocations() {
    let trace = traced();
    let allocations = trace.memory.iter().filter(|change| change.bytes > 0).count();
    let exact = align(&history(&recorded()), &trace).unwrap();
    let recorded = recorded();
    let actions = recorded.devices[0].events.actions();
    let all = 0..usize::MAX;
    for (events, keeps_times, shift) in
        [(all.clone(), true, HOUR), (0..AFTER_TRACE, false, -HOUR), (0..AFTER_TRACE, true, HOUR)]
    {
        let history = part(&recorded, events.clone(), keeps_times);
        let aligned = align(&history, &later(trace.clone(), shift)).unwrap();
        let case = format!("{events:?} {keeps_times} {shift}");
        assert_eq!(
            (aligned.by, aligned.matched, aligned.compared),
            (AlignedBy::Sequence, allocations, allocations),
            "{case}"
        );
        assert_eq!(aligned.offset_ns.is_some(), keeps_times, "{case}");
        // Each operator has the same allocations as by the clock.
        for span in trace.lanes.iter().flat_map(|lane| &lane.spans) {
            let (from, to) = exact.clocks[0].moments(span.start_ns, span.end_ns);
            let here = aligned.clocks[0].moments(span.start_ns + shift, span.end_ns + shift);
            let allocations = |(from, to): (Moment, Moment)| {
                let within = &actions[from.index()..to.index()];
                within.iter().filter(|&&action| action == Action::Alloc).count()
            };
            assert_eq!(allocations((from, to)), allocations(here), "{case} {span:?}");
        }
    }
    // The last two steps are the same as those before, with the same addresses.
    let timeless = part(&recorded, all, false);
    assert_eq!(align(&timeless, &trace).unwrap_err(), NotAligned::Ambiguous { places: 2 });
}

#[test]
fn a_repeated_step_is_placed_by_addresses_or_distances_in_time_or_not_at_all() {
    let recorded = repeating();
    let whole = History::of(&recorded, 0);
    let of_step = |step: usize| of_steps(&recorded, step..step + 2);
    let found = align(&whole, &of_step(7)).unwrap();
    assert_eq!((found.by, found.matched, found.offset_ns), (AlignedBy::Sequence, 20, Some(HOUR)));
    assert_eq!(found.clocks[0].thread(140), Some(1));
    let timeless = part(&recorded, 0..usize::MAX, false);
    assert_eq!(align(&timeless, &of_step(7)).unwrap_err(), NotAligned::Ambiguous { places: 11 });
    // One step with its own address is found without times.
    let mut moved = of_step(7);
    let mut changed = (*recorded).clone();
    changed.devices[0].events = recorded.devices[0]
        .events
        .iter()
        .enumerate()
        .map(|(i, e)| vramscope_trace::Event {
            address_or_free: if (i == 145) || (i == 155) { 0x2000_0000 } else { e.address_or_free },
            time_us: None,
            ..e
        })
        .collect();
    moved.memory[5].address = 0x2000_0000;
    let found = align(&History::of(&Arc::new(changed), 0), &moved).unwrap();
    assert_eq!((found.matched, found.offset_ns), (20, None));
}

#[test]
fn a_recording_that_began_late_is_not_placed_at_another_repetition() {
    let recorded = repeating();
    // All of the trace fits at the beginning of the recording, but its second step is the first recorded one. Or the recording ended early.
    for (steps, traced) in [(7..10, 6..9), (5..8, 6..9)] {
        let events = steps.start * STEP_EVENTS..steps.end * STEP_EVENTS;
        let trace = of_steps(&recorded, traced);
        let found = align(&part(&recorded, events.clone(), true), &trace).unwrap();
        assert_eq!((found.matched, found.compared, found.offset_ns), (20, 20, Some(HOUR)), "{steps:?}");
        assert_eq!(found.other_places, 0);
        // Without times, nothing shows the right place.
        let found = align(&part(&recorded, events, false), &trace).unwrap();
        assert_eq!((found.matched, found.compared, found.other_places), (30, 30, 2), "{steps:?}");
    }
}

/// The events of a step of `repeating`.
const STEP_EVENTS: usize = 20;

/// Twelve equal steps. The addresses repeat as well; the distances in time differ from step to step.
fn repeating() -> Arc<Trace> {
    let mut events = Vec::new();
    let mut state = 1_u64;
    let mut now = 1_000_000;
    for _ in 0..12 {
        for n in 0..10_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += 50 + (state >> 57);
            let mut alloc = event("alloc", 0x1000_0000 + n * 4096, 512 * (n + 1));
            alloc["time_us"] = json!(now);
            events.push(alloc);
        }
        for n in 0..10_u64 {
            now += 50;
            let mut free = event("free_completed", 0x1000_0000 + n * 4096, 512 * (n + 1));
            free["time_us"] = json!(now);
            events.push(free);
        }
    }
    recording(events, Vec::new(), defaults())
}

/// A trace with the allocations of these steps of `repeating`, whose clock is an hour ahead.
fn of_steps(recorded: &Arc<Trace>, steps: Range<usize>) -> OperatorTrace {
    let whole = History::of(recorded, 0);
    let all = whole.allocations.iter().skip(steps.start * 10).take(steps.len() * 10);
    let memory = all.map(|a| vramscope_trace::MemoryChange {
        at_ns: recorded.devices[0].events.time(a.from.event().unwrap()).unwrap() * 1000 + HOUR,
        thread: 1,
        device: 0,
        address: a.address,
        bytes: a.size as i64,
    });
    OperatorTrace { memory: memory.collect(), ..spans(&[(HOUR, HOUR + 1000)]) }
}

/// A trace with one lane.
fn spans(of: &[(i64, i64)]) -> OperatorTrace {
    let mut names = StringTable::default();
    let name = names.intern("op").unwrap();
    let span = |&(start_ns, end_ns)| OperatorSpan { start_ns, end_ns, name, launch: None, is_call: false };
    let spans = of.iter().map(span).collect();
    let lane = vramscope_trace::OperatorLane {
        kind: LaneKind::Operators,
        of: 1,
        stream: None,
        thread_name: String::new(),
        spans,
    };
    OperatorTrace { names, lanes: vec![lane], ..OperatorTrace::default() }
}

#[test]
fn a_trace_without_memory_events_needs_the_clock() {
    let history = history(&recorded());
    let trace = OperatorTrace { memory: Vec::new(), ..traced() };
    let aligned = align(&history, &trace).unwrap();
    assert_eq!((aligned.by, aligned.offset_ns, aligned.compared), (AlignedBy::Clock, Some(0), 0));
    assert_eq!(align(&history, &later(trace, HOUR)).unwrap_err(), NotAligned::NothingToMatch);
    assert_eq!(align(&history, &OperatorTrace::default()).unwrap_err(), NotAligned::Empty);
}

#[test]
fn the_trace_of_another_run_is_refused() {
    let history = history(&recorded());
    let mut other = traced();
    other.memory.iter_mut().filter(|change| change.bytes > 0).for_each(|change| {
        change.address += 512;
        change.bytes += 512 * (change.at_ns / 1000 % 7);
    });
    let refused = align(&history, &other).unwrap_err();
    assert!(matches!(refused, NotAligned::OtherRun { matched, compared: 70 } if matched < 10), "{refused:?}");
}

#[test]
fn positions_on_both_axes_are_the_inverse_of_times() {
    let trace = traced();
    let mut allocations = trace.memory.iter().filter(|change| change.bytes > 0).map(|change| change.at_ns);
    let first = allocations.next().unwrap();
    let allocated = first..allocations.next_back().unwrap();
    for (keeps_times, shift) in [(true, 0), (true, HOUR), (false, 0)] {
        let history = part(&recorded(), 0..AFTER_TRACE, keeps_times);
        let aligned = align(&history, &later(trace.clone(), shift)).unwrap();
        let clock = &aligned.clocks[0];
        let end = history.end().index();
        assert_eq!(clock.position(Axis::Time, 0).is_some(), keeps_times);
        for axis in [Axis::Events, Axis::Time] {
            let mut last = f64::NEG_INFINITY;
            for span in &trace.lanes[1].spans {
                let at = span.start_ns + shift;
                let Some(position) = clock.position(axis, at) else { continue };
                assert!(position >= last, "{axis:?} {position} after {last}");
                last = position;
                // Without times, those before the first and after the last matched allocation are unknown.
                if !keeps_times && !allocated.contains(&span.start_ns) {
                    continue;
                }
                let back = clock.time_at(axis, position);
                assert!((back - at).abs() < 2000, "{axis:?} {at} {back}");
            }
        }
        assert_eq!(clock.position(Axis::Events, i64::MAX), Some(end as f64));
        assert_eq!(
            (clock.time_at(Axis::Events, 0.0), clock.time_at(Axis::Events, 1e9)),
            (i64::MIN, i64::MAX)
        );
    }
}

#[test]
fn an_operator_has_the_memory_of_its_thread() {
    let (history, trace) = (history(&recorded()), traced());
    let aligned = align(&history, &trace).unwrap();
    let clock = &aligned.clocks[0];
    // The main thread waits in `backward`, while the thread of autograd allocates.
    let lane = trace.lanes.iter().find(|lane| lane.kind == LaneKind::Annotations).unwrap();
    let backward = lane.spans.iter().find(|span| trace.names.get(span.name) == "backward").unwrap();
    let ends = (backward.start_ns, backward.end_ns);
    let (all, own) = (clock.memory(&history, ends, None), clock.memory(&history, ends, Some(lane.of)));
    assert!(!all.of_thread && own.of_thread);
    let by_hand = |own_thread: bool| {
        let inside = |at: i64| (ends.0..=ends.1).contains(&at);
        let allocs = trace.memory.iter().filter(|m| m.bytes > 0 && inside(m.at_ns));
        let allocs = allocs.filter(|m| !own_thread || m.thread == lane.of);
        (allocs.clone().map(|m| m.bytes as u64).sum::<u64>(), allocs.count() as u64)
    };
    assert_eq!((all.bytes, all.count), by_hand(false));
    assert_eq!((own.bytes, own.count), by_hand(true));
    assert!(own.bytes < all.bytes);
    let largest = history.allocations[all.largest.unwrap()];
    assert_eq!(
        largest.size,
        trace
            .memory
            .iter()
            .filter(|m| (ends.0..=ends.1).contains(&m.at_ns))
            .map(|m| m.bytes as u64)
            .max_by_key(|&b| if b > 1 << 62 { 0 } else { b })
            .unwrap()
    );
    // Blocks that were freed within are not kept.
    assert!(0 < all.kept_bytes && all.kept_bytes < all.bytes && all.kept_count < all.count);
}
