//! Recordings of which one part is counted, as JSON snapshots.

use serde_json::{Value, json};

const START: u64 = 0x7f00_0000_0000;
const BLOCK: u64 = 512;
const MIB: u64 = 1 << 20;

fn event(action: &str, address: u64, size: u64, frames: &Value) -> Value {
    json!({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames})
}

fn at(line: usize) -> Value {
    json!([{"name": "train", "filename": "/home/me/train.py", "line": line}])
}

fn snapshot(mut events: Vec<Value>, segments: &Value) -> Value {
    for (time, event) in events.iter_mut().enumerate() {
        event["time_us"] = json!(time);
    }
    json!({"segments": segments, "device_traces": [events]})
}

fn room(bytes: u64) -> Value {
    event("segment_alloc", START, bytes.next_multiple_of(2 * MIB), &at(1))
}

/// Free blocks between allocated ones.
fn holes(n: usize) -> Vec<Value> {
    let block = |action, i: usize| event(action, START + i as u64 * BLOCK, BLOCK, &at(1));
    let allocs = (0..2 * n).map(|i| block("alloc", i));
    let frees = (0..2 * n).step_by(2).map(|i| block("free_completed", i));
    [room(2 * n as u64 * BLOCK)].into_iter().chain(allocs).chain(frees).collect()
}

fn failure() -> Value {
    event("oom", MIB, 1 << 30, &at(2))
}

/// Failed requests beside free blocks.
pub(crate) fn failures(failed: usize, free: usize) -> Value {
    let mut events = holes(free);
    events.extend((0..failed).map(|_| failure()));
    snapshot(events, &json!([]))
}

/// As many failed requests as free blocks, with an allocation and its free between two of them.
pub(crate) fn failures_and_allocations(n: usize) -> Value {
    let mut events = holes(n);
    for _ in 0..n {
        let (address, line) = (START, at(3));
        events.extend(["alloc", "free_completed"].map(|action| event(action, address, BLOCK, &line)));
        events.push(failure());
    }
    snapshot(events, &json!([]))
}

pub(crate) fn failures_over_blocks(n: usize) -> Value {
    let block = |i: usize| {
        let state = if i.is_multiple_of(2) { "active_allocated" } else { "inactive" };
        json!({"address": START + i as u64 * BLOCK, "size": BLOCK, "requested_size": BLOCK, "state": state})
    };
    let blocks: Vec<Value> = (0..2 * n).map(block).collect();
    let (total, active) = (2 * n as u64 * BLOCK, n as u64 * BLOCK);
    let segment = json!({"device": 0, "address": START, "total_size": total, "allocated_size": active,
        "active_size": active, "requested_size": active, "stream": 0, "segment_type": "small", "blocks": blocks});
    snapshot((0..n).map(|_| failure()).collect(), &json!([segment]))
}

/// Frees that complete within a request that fails.
pub(crate) fn late_frees(n: usize) -> Value {
    let block = |action, i: usize, frames: &Value| event(action, START + 2 * i as u64 * BLOCK, BLOCK, frames);
    let mut events = vec![room(2 * n as u64 * BLOCK)];
    events.extend((0..n).map(|i| block("alloc", i, &at(1))));
    events.extend((0..n).map(|i| block("free_requested", i, &at(2))));
    events.extend((0..n).map(|i| block("free_completed", i, &at(3))));
    events.push(event("oom", 0, BLOCK, &at(3)));
    snapshot(events, &json!([]))
}

/// Lines that keep an allocation in each of 12 rounds, in which as many bytes are freed, and a failure.
pub(crate) fn leaks(n: usize) -> Value {
    let (kept, mut next) = (12 * n as u64 * BLOCK, START);
    let mut events = vec![room(2 * kept)];
    for _ in 0..12 {
        for line in 0..n {
            events.push(event("alloc", next, BLOCK, &at(line)));
            next += BLOCK;
        }
        let freed = ["alloc", "free_requested", "free_completed"];
        events.extend(freed.map(|action| event(action, START + kept, kept, &at(n))));
    }
    events.push(failure());
    snapshot(events, &json!([]))
}

/// Live allocations in many lines of one function.
pub(crate) fn lines(n: usize) -> Value {
    let allocs = (0..n).map(|i| event("alloc", START + i as u64 * BLOCK, BLOCK, &at(10 * i)));
    snapshot([room(n as u64 * BLOCK)].into_iter().chain(allocs).collect(), &json!([]))
}

/// Live allocations in many files of one name.
pub(crate) fn files(n: usize) -> Value {
    let alloc = |i: usize| {
        let frames = json!([{"name": "train", "filename": format!("/home/me/part{i}/model.py"), "line": 7}]);
        event("alloc", START + i as u64 * BLOCK, BLOCK, &frames)
    };
    snapshot([room(n as u64 * BLOCK)].into_iter().chain((0..n).map(alloc)).collect(), &json!([]))
}

/// Small blocks, with free ones between them, and blocks of their own segments.
pub(crate) fn small_and_large_blocks(n: usize) -> Value {
    let mut events = holes(n);
    for i in 0..n as u64 {
        let address = START + (1 << 40) + i * 40 * MIB;
        events.extend(["segment_alloc", "alloc"].map(|action| event(action, address, 40 * MIB, &at(1))));
    }
    snapshot(events, &json!([]))
}

/// Pairs of steps: the two of each pair make the same requests.
pub(crate) fn kinds_of_steps(n: usize) -> Value {
    let mut events = vec![room(n as u64 * 8 * BLOCK)];
    let mut marks = Vec::new();
    for step in 0..2 * n {
        let begin = events.len();
        for k in 0..8 {
            // The last request tells the kinds apart.
            let size = if k < 7 { BLOCK } else { (step as u64 / 2 + 1) * BLOCK };
            events.push(event("alloc", START + k * BLOCK, size, &at(k as usize)));
        }
        for k in 0..8 {
            let size = if k < 7 { BLOCK } else { (step as u64 / 2 + 1) * BLOCK };
            events.extend(
                ["free_requested", "free_completed"]
                    .map(|action| event(action, START + k * BLOCK, size, &at(k as usize))),
            );
        }
        let mark = |stage, time| json!({"stage": stage, "name": format!("ProfilerStep#{step}"), "device": 0, "time_us": time});
        marks.extend([mark("START", begin), mark("END", events.len() - 1)]);
    }
    let mut whole = snapshot(events, &json!([]));
    whole["external_annotations"] = json!(marks);
    whole
}

/// Allocations that share a stack whose text has 64 KiB.
pub(crate) fn long_stack(n: usize) -> Value {
    let frame =
        |i| json!({"name": format!("{i:08}{}", "x".repeat(900)), "filename": "/home/me/train.py", "line": 7});
    let frames = json!((0..70).map(frame).collect::<Vec<_>>());
    let allocs = (0..n).map(|i| event("alloc", START + i as u64 * BLOCK, BLOCK, &frames));
    snapshot([room(n as u64 * BLOCK)].into_iter().chain(allocs).collect(), &json!([]))
}
