//! Tests of the contents of a trace. The command's tests check the format against a schema.

use serde_json::Value;

use super::lanes::LANES;
use crate::{ExportFormat, testing};

fn trace(of: &std::sync::Arc<vramscope_trace::Trace>) -> Value {
    serde_json::from_str(&testing::text(of, ExportFormat::Chrome)).unwrap()
}

fn events<'t>(trace: &'t Value, ph: &str) -> Vec<&'t Value> {
    trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == ph).collect()
}

#[test]
fn devices_are_processes_and_times_begin_with_the_recording() {
    let trace = trace(&testing::two_devices());
    assert_eq!(trace["otherData"]["time_origin_us"], "10");
    let names: Vec<&str> = events(&trace, "M").iter().filter_map(|e| e["args"]["name"].as_str()).collect();
    assert_eq!(names, ["device 0", "events", "regions", "regions 2", "device 1", "events"]);
    let begins = events(&trace, "b");
    assert_eq!(begins.len(), 4);
    assert_eq!(begins.iter().filter(|e| e["pid"] == 1).count(), 3);
    let ids: std::collections::BTreeSet<&str> = begins.iter().filter_map(|e| e["id"].as_str()).collect();
    assert_eq!(ids.len(), 4);
    let first = begins[1];
    assert_eq!(first["args"]["block_bytes"], 1024);
    assert_eq!((first["ts"].as_i64(), first["args"]["free_event"].as_u64()), (Some(0), Some(3)));
    let end = events(&trace, "e").into_iter().find(|e| e["id"] == first["id"]).unwrap();
    assert_eq!(end["ts"], 20);
    // Two regions that overlap without nesting.
    let regions = events(&trace, "X");
    assert_eq!(regions.iter().map(|r| r["tid"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((regions[0]["ts"].as_i64(), regions[0]["dur"].as_i64()), (Some(5), Some(15)));
}

#[test]
fn instants_mark_failed_requests() {
    let trace = trace(&testing::two_devices());
    let instants = events(&trace, "i");
    assert_eq!(
        instants.iter().map(|e| e["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["out of memory", "snapshot"]
    );
    assert_eq!(instants[0]["args"]["device_free_bytes"], 4096);
    assert_eq!(instants[0]["args"]["size_bytes"], 1 << 30);
}

#[test]
fn stack_frames_have_whole_stacks() {
    let trace = trace(&testing::two_devices());
    let first = events(&trace, "b")[1];
    let frame = |n: &Value| &trace["stackFrames"][n.as_u64().unwrap().to_string()];
    let innermost = frame(&first["sf"]);
    assert!(innermost["name"].as_str().unwrap().starts_with("train.py:7 a,b"));
    assert_eq!(frame(&innermost["parent"])["name"], "train.py:70 main");
    assert_eq!(frame(&innermost["parent"])["parent"], Value::Null);
}

#[test]
fn without_times_events_are_counted() {
    let event =
        |action: &str, addr: u64| serde_json::json!({"action": action, "addr": addr, "size": 9, "stream": 0});
    let events_of = [event("alloc", 512), event("alloc", 1024), event("free_completed", 512)];
    let trace = trace(&testing::read(&serde_json::json!({"segments": [], "device_traces": [events_of]})));
    assert_eq!(trace["otherData"]["clock"], "event numbers");
    let lives: Vec<(i64, i64)> = events(&trace, "b")
        .iter()
        .filter(|e| e["cat"] == "allocation")
        .zip(events(&trace, "e"))
        .map(|(b, e)| (b["ts"].as_i64().unwrap(), e["ts"].as_i64().unwrap()))
        .collect();
    assert_eq!(lives, [(0, 2), (1, 2)]);
    assert_eq!(events(&trace, "b")[0]["name"], "(no stack)");
}

/// This test finishes only if a stack is not processed again for every allocation.
#[test]
fn a_shared_stack_is_written_once() {
    let (depth, count) = (100_000, 10_000);
    let trace = trace(&testing::deep_stack_of_many(depth, count));
    assert_eq!(trace["stackFrames"].as_object().unwrap().len(), depth);
    let begins = events(&trace, "b");
    assert_eq!(begins.len() as u64, count);
    assert!(
        begins.iter().all(|b| b["sf"] == begins[0]["sf"] && b["args"]["stack"] == begins[0]["args"]["stack"])
    );
}

#[test]
fn regions_that_nest_nowhere_are_slices_without_a_thread() {
    let many = LANES + 3;
    let note = |stage: &str, i: usize, time: usize| serde_json::json!({"stage": stage, "name": format!("r{i}"), "device": 0, "time_us": time});
    let starts = (0..many).map(|i| note("START", i, i));
    let notes: Vec<Value> = starts.chain((0..many).map(|i| note("END", i, many + i))).collect();
    let event = serde_json::json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0, "time_us": 1});
    let trace = trace(&testing::read(&serde_json::json!({
        "segments": [], "device_traces": [[event]], "external_annotations": notes})));
    assert_eq!(events(&trace, "X").len(), LANES);
    let of_regions = |ph: &str| -> Vec<(Value, i64)> {
        let slices = events(&trace, ph).into_iter().filter(|e| e["cat"] == "region");
        slices.map(|e| (e["name"].clone(), e["ts"].as_i64().unwrap())).collect()
    };
    let expected = |from: usize| -> Vec<(Value, i64)> {
        (LANES..many).map(|i| (format!("r{i}").into(), (from + i) as i64)).collect()
    };
    assert_eq!(of_regions("b"), expected(0));
    assert_eq!(of_regions("e"), expected(many));
}
