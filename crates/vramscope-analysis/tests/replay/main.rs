//! Replays: single rules, whole recordings, other settings.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests fail by panicking")]

mod cancelled;
mod causes;
mod data;
mod gpus;
mod host;
mod lower_bounds;
mod plans;
mod rules;

use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_trace::{Trace, formats};

const MIB: u64 = 1 << 20;

/// Block `n`, at an address of its own.
fn alloc(n: u64, size: u64) -> Value {
    json!({"action": "alloc", "addr": n << 36, "size": size, "stream": 0, "frames": []})
}

/// A free that is requested and completed in one event.
fn free(n: u64) -> Value {
    json!({"action": "free", "addr": n << 36, "size": 0, "stream": 0, "frames": []})
}

/// The program empties the cache; one made-up released segment is recorded.
fn empty_cache(n: u64) -> Value {
    json!({"action": "segment_free", "addr": n, "size": 1, "stream": 0, "frames": []})
}

/// A recording under default settings, with segments of one block each at the end.
fn recording(events: &[Value], segments: &[(u64, u64)]) -> Arc<Trace> {
    let segment = |&(address, size): &(u64, u64)| {
        let block =
            json!({"address": address, "size": size, "requested_size": size, "state": "active_allocated"});
        json!({"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large",
            "blocks": [block]})
    };
    let segments: Vec<Value> = segments.iter().map(segment).collect();
    let settings = json!({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": false});
    let snapshot = json!({"segments": segments, "device_traces": [events], "allocator_settings": settings});
    formats::read(snapshot.to_string().as_bytes()).unwrap().trace
}

use vramscope_testing::recordings as data;
