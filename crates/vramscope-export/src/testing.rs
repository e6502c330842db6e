//! Recordings for tests.

use std::sync::Arc;

use vramscope_analysis::Frames;
use vramscope_trace::{Event, Trace, formats};

use crate::{ExportFormat, ExportOptions, Source, Written, write};

/// Reads a snapshot written as JSON.
pub(crate) fn read(snapshot: &serde_json::Value) -> Arc<Trace> {
    formats::read(snapshot.to_string().as_bytes()).unwrap().trace
}

/// One live allocation with `depth` frames of user code.
pub(crate) fn deep_stack(depth: usize) -> Arc<Trace> {
    deep_stack_in("a.py", depth)
}

fn deep_stack_in(file: &str, depth: usize) -> Arc<Trace> {
    let frames: Vec<_> =
        (0..depth).map(|i| serde_json::json!({"name": "f", "filename": file, "line": i})).collect();
    let event = serde_json::json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0, "frames": frames});
    read(&serde_json::json!({"segments": [], "device_traces": [[event]]}))
}

/// `count` live allocations of one stack with `depth` frames, none of them user code.
pub(crate) fn deep_stack_of_many(depth: usize, count: u64) -> Arc<Trace> {
    let mut trace = deep_stack_in("a.cpp", depth);
    let events = &mut Arc::make_mut(&mut trace).devices[0].events;
    let first = events.get(0);
    (1..count).for_each(|i| events.push(Event { address_or_free: first.address() + 512 * i, ..first }));
    trace
}

/// Two devices: one with hostile names, every kind of event and times, the other with one stack only.
pub(crate) fn two_devices() -> Arc<Trace> {
    let hostile = "a;b\"\\<&>\u{1b}[31m\n=1+1, 'x' 12";
    let frames = serde_json::json!([
        {"name": hostile, "filename": "/home/user/train.py", "line": 7},
        {"name": "main", "filename": "/home/user/train.py", "line": 70},
    ]);
    let event = |action: &str, addr: u64, size: u64, time: i64| {
        serde_json::json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time,
            "frames": frames, "user_metadata": hostile, "pool_id": [0, 0]})
    };
    let mut oom = event("oom", 0, 1 << 30, 50);
    oom["device_free"] = 4096.into();
    let first = serde_json::json!([
        event("segment_alloc", 0x20_0000, 2 << 20, 10),
        event("alloc", 0x20_0000, 1000, 10),
        event("alloc", 0x20_0400, 2000, 20),
        event("free_requested", 0x20_0000, 1000, 30),
        event("free_completed", 0x20_0000, 1000, 40),
        oom,
        event("snapshot", 0, 2048, 60),
    ]);
    let second = serde_json::json!([
        {"action": "alloc", "addr": 1u64 << 40, "size": 512, "stream": 17, "time_us": 35,
         "frames": [{"name": "main", "filename": "/home/user/train.py", "line": 70}]},
    ]);
    let note = |stage: &str, name: &str, time: i64| serde_json::json!({"stage": stage, "name": name, "device": 0, "time_us": time});
    read(&serde_json::json!({
        "segments": [{"device": 0, "address": 0x20_0000, "total_size": 2 << 20, "stream": 0,
            "segment_type": "small", "segment_pool_id": [0, 0], "allocated_size": 2048, "active_size": 2048,
            "blocks": [
                {"address": 0x20_0000, "size": 1024, "requested_size": 0, "state": "inactive"},
                {"address": 0x20_0400, "size": 2048, "requested_size": 2000, "state": "active_allocated"},
                {"address": 0x20_0c00, "size": (2 << 20) - 3072, "requested_size": 0, "state": "inactive"}]}],
        "device_traces": [first, second],
        "external_annotations": [note("START", "step#1", 15), note("START", hostile, 18),
            note("END", "step#1", 30), note("END", hostile, 45)],
    }))
}

/// Texts that a spreadsheet would evaluate, and one that is a number.
pub(crate) fn formulas() -> Arc<Trace> {
    let texts =
        ["=cmd|'/c calc'!A0", "+1+1", "-2+3", "@SUM(1)", "  =1", "\t=1", "\r=1", "a;=1+1", "a; +1", "-1.5"];
    let event = |(i, text): (usize, &str)| {
        serde_json::json!({"action": "alloc", "addr": 512 * (i + 1), "size": 9, "stream": 0, "time_us": -5,
            "user_metadata": text, "compile_context": text, "category": text,
            "frames": [{"name": text, "filename": "??", "line": 0}, {"name": text, "filename": text, "line": 7}]})
    };
    let events: Vec<_> = texts.into_iter().enumerate().map(event).collect();
    read(&serde_json::json!({"segments": [], "device_traces": [events]}))
}

/// Exports all of `trace`.
pub(crate) fn export(
    trace: &Arc<Trace>,
    format: ExportFormat,
    options: &ExportOptions,
) -> (Vec<u8>, Written) {
    let frames = Frames::of(trace);
    let source = Source { trace, frames: &frames, devices: (0..trace.devices.len()).collect() };
    let mut out = Vec::new();
    let written = write(&source, format, options, &mut out).unwrap();
    assert_eq!(written.bytes, out.len() as u64);
    (out, written)
}

/// Exports all of `trace` as text.
pub(crate) fn text(trace: &Arc<Trace>, format: ExportFormat) -> String {
    String::from_utf8(export(trace, format, &ExportOptions::default()).0).unwrap()
}
