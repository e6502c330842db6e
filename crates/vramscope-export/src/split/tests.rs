use serde_json::{Value, json};
use vramscope_analysis::{Counters, Frames};
use vramscope_trace::formats;

use super::*;
use crate::testing;

fn split(trace: &Arc<Trace>, by: SplitBy) -> Result<Split, SplitError> {
    let frames = Frames::of(trace);
    Split::of(&Source { trace, frames: &frames, devices: (0..trace.devices.len()).collect() }, by)
}

/// The counters at every moment of a device.
fn counters(trace: &Arc<Trace>, position: usize) -> Vec<Counters> {
    History::replayed(trace, position).walk().map(|(_, counters)| counters).collect()
}

/// Writes and reads a part.
fn read(part: &Trace) -> Arc<Trace> {
    let mut pickle = Vec::new();
    formats::write_pickle(part, &mut pickle).unwrap();
    let read = formats::read(&pickle[..]).unwrap();
    assert!(*read.trace == *part && read.notices.to_string().is_empty(), "{}", read.notices);
    read.trace
}

#[test]
fn parts_lack_what_the_whole_lacks_there() {
    let mut trace = (*program()).clone();
    let all = trace.devices[0].events.len();
    (trace.devices[0].gap, trace.ends_early) = (Some(1..all - 1), true);
    let split = split(&Arc::new(trace), SplitBy::Events(all.div_ceil(2))).unwrap();
    let parts: Vec<_> = (0..split.parts()).map(|part| read(&split.part(part))).collect();
    let gaps: Vec<_> = parts.iter().map(|part| part.devices[0].gap.clone()).collect();
    let first = parts[0].devices[0].events.len();
    assert_eq!(gaps, [Some(1..first), Some(0..all - first - 1)]);
    assert_eq!(parts.iter().map(|part| part.ends_early).collect::<Vec<_>>(), [false, true]);
}

/// Blocks of the small and the large pool, one with a remainder that is not split off, and one that waits for another stream.
fn program() -> Arc<Trace> {
    const MIB: u64 = 1 << 20;
    let mut time = 0;
    let mut event = |action: &str, addr: u64, size: u64| {
        time += 10;
        json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time,
            "frames": [{"name": action, "filename": "train.py", "line": time}]})
    };
    let large = 0x7_0000_0000u64;
    let events: Vec<Value> = vec![
        event("segment_alloc", large, 20 * MIB),
        event("alloc", large, 5 * MIB),
        event("alloc", large + 5 * MIB, 15 * MIB - 600_000),
        event("segment_alloc", 0x20_0000, 2 * MIB),
        event("alloc", 0x20_0000, 1000),
        event("free_requested", large, 5 * MIB),
        event("free_completed", large, 5 * MIB),
        event("alloc", large, 2 * MIB),
        event("free_requested", large + 5 * MIB, 15 * MIB - 600_000),
        event("alloc", 0x20_0400, 700),
        event("free_completed", large + 5 * MIB, 15 * MIB - 600_000),
        event("free_requested", large, 2 * MIB),
        event("free_completed", large, 2 * MIB),
        event("segment_free", large, 20 * MIB),
        event("free_requested", 0x20_0000, 1000),
        event("free_completed", 0x20_0000, 1000),
    ];
    let end = json!([{"device": 0, "address": 0x20_0000, "total_size": 2 * MIB, "stream": 0, "segment_type": "small",
        "blocks": [
            {"address": 0x20_0000, "size": 1024, "requested_size": 0, "state": "inactive"},
            {"address": 0x20_0400, "size": 1024, "requested_size": 700, "state": "active_allocated"},
            {"address": 0x20_0800, "size": 2 * MIB - 2048, "requested_size": 0, "state": "inactive"}]}]);
    testing::read(
        &json!({"segments": end, "device_traces": [events], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""}}),
    )
}

#[test]
fn every_moment_of_a_part_is_that_of_the_whole() {
    let whole = program();
    let of_whole = counters(&whole, 0);
    for n in 1..=16 {
        let split = split(&whole, SplitBy::Events(n)).unwrap();
        assert_eq!(split.parts(), 16usize.div_ceil(n));
        let mut next = 0;
        for number in 0..split.parts() {
            let part = read(&split.part(number));
            let events = split.events(number).next().unwrap().events;
            assert_eq!((events.start, part.devices[0].events.len()), (next, events.len()));
            next = events.end;
            assert_eq!(counters(&part, 0), of_whole[events.start..=events.end], "{n} {number}");
            let quality = History::replayed(&part, 0).quality;
            assert_eq!(
                (quality.inferred.inferred_sizes, quality.contradictions.end_state_disagreements),
                (0, 0),
                "{quality:?}"
            );
        }
        assert_eq!(next, 16);
    }
}

#[test]
fn freed_blocks_keep_their_stacks() {
    let whole = program();
    let split = split(&whole, SplitBy::Events(3)).unwrap();
    let part = Arc::new(split.part(1));
    let history = History::of(&part, 0);
    let a = history.allocations.iter().find(|a| a.is_preexisting()).unwrap();
    let frame = part.frames.get(part.stacks.get(a.stack.unwrap())[0]);
    assert_eq!((part.strings.get(frame.name), a.size), ("alloc", 5 << 20));
}

#[test]
fn a_recording_without_segments_repeats_live_allocations() {
    let event = |action: &str, addr: u64, time: u64| json!({"action": action, "addr": addr, "size": 512, "stream": 0, "time_us": time});
    let trace = testing::read(&json!({"segments": [], "device_traces": [[
        event("alloc", 512, 1), event("alloc", 1024, 2), event("free_completed", 512, 3),
        event("free_completed", 9216, 4), event("alloc", 2048, 9)]]}));
    let of_whole = counters(&trace, 0);
    let split = split(&trace, SplitBy::Microseconds(2)).unwrap();
    let parts: Vec<_> = (0..split.parts()).flat_map(|part| split.events(part)).collect();
    let ranges: Vec<_> = parts.iter().map(|p| (p.events.clone(), p.repeated)).collect();
    // No event is between the times 5 and 9. The block at 9216 is older than the recording, and freed in the second part.
    assert_eq!(ranges, [(0..2, 1), (2..4, 3), (4..5, 1)]);
    for (number, of_part) in parts.iter().enumerate() {
        let part = read(&split.part(number));
        let of_part_counters = &counters(&part, 0)[of_part.repeated..];
        assert_eq!(of_part_counters, &of_whole[of_part.events.start..=of_part.events.end], "{number}");
    }
}

#[test]
fn devices_are_cut_at_the_same_times() {
    let trace = testing::two_devices();
    let split = split(&trace, SplitBy::Events(4)).unwrap();
    let ranges: Vec<Vec<_>> = (0..2).map(|part| split.events(part).map(|d| d.events).collect()).collect();
    // The second part begins at time 40; the event of the second device is at 35.
    assert_eq!(ranges, [[0..4, 0..1], [4..7, 1..1]]);
    let annotations = |part| split.part(part).annotations.map(|a| a.len());
    assert_eq!([annotations(0), annotations(1)], [Some(3), Some(1)]);
}

#[test]
fn split_refuses_recordings_without_events_times_or_steps() {
    let none = testing::read(&json!({"segments": [], "device_traces": []}));
    assert!(matches!(split(&none, SplitBy::Events(1)), Err(SplitError::NoEvents)));
    let untimed = json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0});
    let one = testing::read(&json!({"segments": [], "device_traces": [[untimed]]}));
    assert!(matches!(split(&one, SplitBy::Microseconds(1)), Err(SplitError::NoTimes)));
    assert!(matches!(split(&one, SplitBy::Steps(1)), Err(SplitError::NoSteps)));
    assert_eq!(split(&one, SplitBy::Events(1)).unwrap().parts(), 1);
    let two = testing::read(&json!({"segments": [], "device_traces": [[untimed], [untimed]]}));
    assert!(matches!(split(&two, SplitBy::Events(1)), Err(SplitError::SeveralDevices)));
    let far = |time: u64| json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0, "time_us": time});
    let long = testing::read(&json!({"segments": [], "device_traces": [[far(0), far(1 << 60)]]}));
    assert!(matches!(split(&long, SplitBy::Microseconds(1000)), Err(SplitError::TooMany)));
}
