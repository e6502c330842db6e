//! Tests of all analyses on recordings made by hand and at random.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests fail by panicking")]

mod allocator_findings;
mod budgets;
mod categories;
mod causes;
mod collectives;
mod counters;
mod diff;
mod difference;
mod estimates;
mod explained;
mod held;
mod idle;
mod interval_totals;
mod leaks;
mod names;
mod operators;
mod phases;
mod pins;
mod samples;
mod serving;
mod sizes;
mod skipped;
mod timeline;
mod without_stacks;

use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_trace::Trace;
use vramscope_trace::formats;

/// A recording of one device.
fn recording(events: Vec<Value>, segments: Vec<Value>, settings: Value) -> Arc<Trace> {
    let snapshot = json!({"segments": segments, "device_traces": [events], "allocator_settings": settings});
    formats::read(snapshot.to_string().as_bytes()).unwrap().trace
}

fn defaults() -> Value {
    json!({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": false})
}

fn event(action: &str, addr: u64, size: u64) -> Value {
    json!({"action": action, "addr": addr, "size": size, "stream": 0, "frames": []})
}

/// An event with a stack of one user line.
fn at_line(action: &str, addr: u64, size: u64, line: u32) -> Value {
    let mut e = event(action, addr, size);
    e["frames"] = json!([{"name": "step", "filename": "/home/user/train.py", "line": line}]);
    e
}

/// A segment of the end state with its blocks, as (address, size, requested, state).
fn segment(address: u64, size: u64, kind: &str, blocks: &[(u64, u64, u64, &str)]) -> Value {
    let block = |&(address, size, requested, state): &(u64, u64, u64, &str)| json!({"address": address, "size": size, "requested_size": requested, "state": state, "frames": []});
    let blocks: Vec<Value> = blocks.iter().map(block).collect();
    json!({"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": kind, "blocks": blocks})
}
