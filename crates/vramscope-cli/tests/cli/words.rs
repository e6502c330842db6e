//! Sentences fit the recording: its program, its contents, its limitations.

use serde_json::{Value, json};

use crate::run;

/// The output of `vramscope` for a recording, as one line because of wrapping.
fn said(command: &str, recording: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    std::fs::write(&file, recording.to_string()).unwrap();
    let budget: &[&str] = if command == "check" { &["--no-leaks", "--max-peak", "1TiB"] } else { &[] };
    let output = run(&[&[command, file.to_str().unwrap()], budget].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn event(action: &str, addr: u64, frames: &Value) -> Value {
    json!({"action": action, "addr": addr, "size": 512, "stream": 0, "time_us": 5, "frames": frames})
}

fn frames(file: &str) -> Value {
    json!([{"name": "train", "filename": file, "line": 7}])
}

#[test]
fn advice_is_that_of_the_program_that_recorded() {
    let recording = |frames: &Value, conf: &str| {
        json!({"segments": [], "device_traces": [[event("alloc", 512, frames)]], "trace_alloc_overflowed": [true],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": conf}})
    };
    for (recording, is_torch) in [
        (recording(&json!([]), ""), true),
        (recording(&frames("train.py"), ""), true),
        (recording(&json!([]), "backend:cupy"), false),
        (recording(&frames("src/main.rs"), ""), false),
    ] {
        for command in ["report", "check"] {
            let said = said(command, &recording);
            assert_eq!(said.contains("HistoryOptions::max_entries"), !is_torch, "{said}");
            assert_eq!(said.contains("with a larger `max_entries`"), is_torch, "{said}");
            assert!(is_torch || !said.contains("torch.cuda"), "{said}");
        }
    }
}

#[test]
fn recorded_facts_are_not_called_probable() {
    let recording = |overflowed: Value| {
        let freed = event("free_completed", 1024, &frames("train.py"));
        let events: Vec<Value> =
            (0..99).map(|n| event("alloc", 4096 + 512 * n, &frames("train.py"))).collect();
        let all: Vec<Value> = std::iter::once(freed).chain(events).collect();
        // A block whose stack belongs to no `alloc` event, because that event was dropped.
        let block = json!({"address": 1 << 21, "size": 1024, "requested_size": 1024, "state": "active_allocated",
            "frames": frames("train.py")});
        let segments = json!([{"device": 0, "address": 1 << 21, "total_size": 2 << 20, "stream": 0,
            "segment_type": "small", "blocks": [block]}]);
        json!({"segments": segments, "device_traces": [all], "trace_alloc_overflowed": overflowed})
    };
    for command in ["report", "check", "replay"] {
        let certain = said(command, &recording(json!([true])));
        assert!(certain.contains("dropped") && !certain.contains("probably"), "{certain}");
        let probable = said(command, &recording(json!([null])));
        assert!(probable.contains("probably dropped"), "{probable}");
    }
}

#[test]
fn a_report_with_stacks_does_not_say_that_stacks_are_missing() {
    let segment = json!([{"device": 0, "address": 1 << 21, "total_size": 2 << 20, "stream": 0, "segment_type": "small",
        "blocks": [{"address": 1 << 21, "size": 512, "requested_size": 512, "state": "active_allocated",
            "frames": frames("train.py")}]}]);
    let events = json!([[
        event("alloc", (1 << 21) + 512, &json!([])),
        event("free_completed", (1 << 21) + 512, &json!([]))
    ]]);
    let with = said("report", &json!({"segments": segment, "device_traces": events}));
    assert!(with.contains("train.py:7 train") && !with.contains("No stacks were recorded"), "{with}");
    assert!(with.contains("Only memory that was live before recording has stacks"), "{with}");
    let without = said("report", &json!({"segments": [], "device_traces": events}));
    assert!(without.contains("No stacks were recorded"), "{without}");
}

/// A region that frees allocations of others once had net bytes of minus hundreds of GiB.
#[test]
fn a_regions_figures_are_of_one_run() {
    const MIB: u64 = 1 << 20;
    let mut events = Vec::new();
    let mut notes = Vec::new();
    for run in 0..100 {
        let timed = |action: &str, time: i64| {
            let mut event = event(action, 512 * MIB, &frames("train.py"));
            event["size"] = json!(100 * MIB);
            event["time_us"] = json!(time);
            event
        };
        let start = 100 * run;
        events.extend([timed("alloc", start), timed("free_completed", start + 50)]);
        let note = |stage: &str, time: i64| json!({"stage": stage, "name": format!("free#{run}"), "device": 0, "time_us": time});
        notes.extend([note("START", start + 40), note("END", start + 60)]);
    }
    let recording = json!({"segments": [], "device_traces": [events], "external_annotations": notes});
    let said = said("report", &recording);
    assert!(said.contains("free 100 100.00 MiB 0 B -100.00 MiB 20 us"), "{said}");
}

/// A recording with only allocations and completed frees: no segment events, no requested frees.
#[test]
fn kinds_of_events_that_were_left_out_are_named() {
    let events: Vec<Value> = (0..4)
        .flat_map(|n| {
            ["alloc", "free_completed"].map(|action| event(action, (1 << 21) + 512 * n, &frames("train.py")))
        })
        .collect();
    let recording = json!({"segments": [], "device_traces": [events]});
    for command in ["report", "replay", "check"] {
        let said = said(command, &recording);
        let kinds =
            if command == "replay" { "`free_requested` and `segment_alloc`" } else { "`free_requested`" };
        let named = format!("Events of the kind {kinds} were not recorded");
        assert!(said.contains(&named), "{command}: {said}");
        assert!(!said.contains("do not reproduce"), "{command}: {said}");
    }
    assert!(said("info", &recording).contains("free_requested left out"));
    let replay = said("replay", &recording);
    assert!(replay.contains("the replay cannot be compared with the recording"), "{replay}");
}

/// Segments are known only from the end state, or not at all.
#[test]
fn a_recording_without_segment_events_says_so() {
    let events: Vec<Value> = (0..2)
        .flat_map(|_| {
            ["alloc", "free_requested", "free_completed"]
                .map(|action| event(action, 1 << 21, &frames("train.py")))
        })
        .collect();
    let segment = json!({"device": 0, "address": 1 << 21, "total_size": 1 << 21, "stream": 0,
        "segment_type": "small", "blocks": [{"address": 1 << 21, "size": 1 << 21, "state": "inactive"}]});
    let recording = json!({"segments": [segment], "device_traces": [events]});
    for command in ["report", "check", "replay"] {
        let said = said(command, &recording);
        assert!(said.contains("No segment event was recorded: either all segments existed before"), "{said}");
    }
    let none = json!({"segments": [], "device_traces": [events]});
    let said = said("replay", &none);
    assert!(said.contains("`segment_alloc` were not recorded"), "{said}");
    assert!(!said.contains("has nothing"), "{said}");
}

/// Some memory was outside of the segments in the end state, which may be incomplete, so nothing is certain.
#[test]
fn a_replay_says_that_segment_events_may_be_missing() {
    let frames = frames("train.py");
    let events = ["alloc", "free_requested", "free_completed"].map(|action| event(action, 8 << 21, &frames));
    let segment = json!({"device": 0, "address": 1 << 21, "total_size": 1 << 21, "stream": 0,
        "segment_type": "small", "blocks": [{"address": 1 << 21, "size": 1 << 21, "state": "active_allocated"}]});
    let said = said("replay", &json!({"segments": [segment], "device_traces": [events]}));
    assert!(said.contains("Or the recording lacks events of new segments"), "{said}");
}
