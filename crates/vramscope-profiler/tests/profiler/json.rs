//! Results as JSON, in gpumemprof's format.

use serde_json::{Value, json};
use vramscope_allocator::{MemoryPool, Policy};
use vramscope_profiler::{
    CallOutcome, GpuMemoryProfiler, MemorySnapshot, Operation, PoolSource, ProfileResult, ProfilerOptions,
    SavedResults, from_json,
};

/// Returns a snapshot as release 0.2.3 of gpumemprof writes it (`MemorySnapshot.to_dict`).
fn snapshot(operation: &str, allocated: u64) -> Value {
    json!({
        "timestamp": 1764000000.123456,
        "allocated_memory": allocated,
        "reserved_memory": 2097152,
        "max_memory_allocated": 1536,
        "max_memory_reserved": 2097152,
        "active_memory": allocated,
        "inactive_memory": 0,
        "cpu_memory": 8589934592u64,
        "device_id": 0,
        "operation": operation,
        "stack_trace": null,
    })
}

/// Returns a result as gpumemprof writes it (`ProfileResult.to_dict`).
fn result() -> Value {
    json!({
        "function_name": "step",
        "execution_time": 0.000976562,
        "memory_before": snapshot("before_step", 512),
        "memory_after": snapshot("after_step", 1024),
        "memory_peak": snapshot("peak_step", 1536),
        "memory_allocated": 512,
        "memory_freed": 0,
        "memory_diff": 512,
        "peak_memory_usage": 1536,
        "tensors_created": 1,
        "tensors_deleted": 0,
        "call_count": 1,
    })
}

/// Returns saved results as gpumemprof writes them (`get_summary` and `save_results`).
fn saved() -> Value {
    json!({
        "summary": {
            "device": "cuda:0",
            "total_functions_profiled": 1,
            "total_function_calls": 1,
            "total_execution_time": 0.000976562,
            "total_memory_allocated": 512,
            "total_memory_freed": 0,
            "net_memory_change": 512,
            "peak_memory_usage": 1536,
            "current_memory_usage": 1024,
            "baseline_memory_usage": 512,
            "memory_change_from_baseline": 512,
            "function_summaries": {
                "step": {
                    "call_count": 1,
                    "total_time": 0.000976562,
                    "avg_time": 0.000976562,
                    "total_memory_allocated": 512,
                    "avg_memory_allocated": 512.0,
                    "peak_memory": 1536,
                },
            },
            "monitoring_active": false,
            "snapshots_collected": 1,
        },
        "results": [result()],
        "snapshots": [snapshot("monitor", 1024)],
    })
}

fn read(json: &Value) -> Result<SavedResults, String> {
    SavedResults::read(json.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Checks that `here` contains everything in `there`, with the same values.
fn assert_holds(here: &Value, there: &Value, path: &str) {
    match (here, there) {
        (Value::Object(here), Value::Object(there)) => {
            for (key, value) in there {
                let own = here.get(key).unwrap_or_else(|| panic!("{path}.{key} is missing"));
                assert_holds(own, value, &format!("{path}.{key}"));
            }
        }
        (Value::Array(here), Value::Array(there)) => {
            assert_eq!(here.len(), there.len(), "{path}");
            here.iter().zip(there).for_each(|(here, there)| assert_holds(here, there, path));
        }
        _ => assert_eq!(here, there, "{path}"),
    }
}

#[test]
fn results_saved_by_gpumemprof_are_read_and_written_unchanged() {
    let read = read(&saved()).unwrap();
    let result = &read.results[0];
    assert_eq!((result.memory_diff(), result.peak_memory_usage()), (Some(512), Some(1536)));
    assert_eq!((result.allocations_created, result.depth), (Some(1), 0));
    assert_eq!(result.outcome, CallOutcome::Returned);
    assert_eq!(result.memory_before.operation, Operation::Before("step".into()));
    assert_eq!(result.memory_before.timestamp_us, 1_764_000_000_123_456);
    assert!(!result.peak_is_exact, "gpumemprof's file has no such key");
    assert_eq!(read.summary.as_ref().unwrap().function_summaries["step"].call_count, 1);
    assert_holds(&serde_json::to_value(&read).unwrap(), &saved(), "");
}

/// All of gpumemprof's keys come first, in its order.
#[test]
fn keys_come_in_gpumemprofs_order() {
    let result: ProfileResult = from_json(result().to_string().as_bytes()).unwrap();
    let text = serde_json::to_string(&result).unwrap();
    let keys = [
        "function_name",
        "execution_time",
        "memory_before",
        "memory_after",
        "memory_peak",
        "memory_allocated",
        "memory_freed",
        "memory_diff",
        "peak_memory_usage",
        "tensors_created",
        "tensors_deleted",
        "call_count",
    ];
    let text = text.replace(&serde_json::to_string(&result.memory_before).unwrap(), "{}");
    let places: Vec<_> = keys.iter().map(|key| text.find(&format!("\"{key}\":")).expect(key)).collect();
    assert!(places.is_sorted(), "{text}");
    let snapshot = serde_json::to_string(&result.memory_before).unwrap();
    let keys = [
        "timestamp",
        "allocated_memory",
        "reserved_memory",
        "max_memory_allocated",
        "max_memory_reserved",
        "active_memory",
        "inactive_memory",
        "cpu_memory",
        "device_id",
        "operation",
        "stack_trace",
    ];
    let places: Vec<_> = keys.iter().map(|key| snapshot.find(&format!("\"{key}\":")).expect(key)).collect();
    assert!(places.is_sorted(), "{snapshot}");
}

#[test]
fn results_of_a_program_come_back_as_they_were() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
    let options = ProfilerOptions { collect_stack_traces: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    profiler.profile_function("step", || drop(pool.malloc(4096)));
    profiler.try_profile_function("too much", || pool.malloc(2 << 30)).unwrap_err();
    profiler.start_monitoring(std::time::Duration::from_secs(3600)).unwrap();
    profiler.stop_monitoring();
    let mut json = Vec::new();
    let saved = profiler.saved_results();
    saved.write(&mut json).unwrap();
    assert!(json.ends_with(b"}\n"));
    assert_eq!(SavedResults::read(&json[..]).unwrap(), saved);
    let after: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(after["results"][1]["outcome"], "failed");
    assert!(after["results"][1]["error"].as_str().unwrap().starts_with("Out of memory"));
    let stack = &after["results"][0]["memory_before"];
    let text = stack["stack_trace"].as_str().unwrap();
    let frames = stack["stack_frames"].as_array().unwrap();
    assert_eq!(text.lines().count(), frames.len());
    // In Python's order, the most recent call is last.
    let last = format!("  File {}, line {}, in ", frames[0]["filename"], frames[0]["line"]);
    assert!(text.lines().next_back().unwrap().starts_with(&last), "{text}");
}

#[test]
fn an_empty_result_has_gpumemprofs_message() {
    let mut empty = json!({"summary": {"message": "No profiling results available"}, "results": []});
    let read_back = read(&empty).unwrap();
    assert_eq!((read_back.summary.as_ref(), read_back.snapshots.len()), (None, 0));
    empty["snapshots"] = json!([]);
    assert_eq!(serde_json::to_value(&read_back).unwrap(), empty);
}

#[test]
fn unknown_keys_of_saved_results_are_ignored() {
    let mut more = saved();
    for place in [
        "/summary",
        "/summary/function_summaries/step",
        "/results/0",
        "/results/0/memory_peak",
        "/snapshots/0",
    ] {
        more.pointer_mut(place).unwrap()["a key of tomorrow"] = json!([{"any": "thing"}]);
    }
    assert_eq!(read(&more).unwrap(), read(&saved()).unwrap());
    // Keys that an older or another writer leaves out are unknown.
    let least = json!({"timestamp": 1.5});
    let snapshot: MemorySnapshot = from_json(least.to_string().as_bytes()).unwrap();
    assert_eq!((snapshot.timestamp_us, snapshot.allocated_memory), (1_500_000, None));
    assert_eq!(snapshot.operation, Operation::Other("".into()));
    assert_eq!(serde_json::to_value(&snapshot).unwrap()["operation"], Value::Null);
}

#[test]
fn gpumemprofs_stacks_and_words_are_read() {
    let text = "  File \"/a/train.py\", line 3, in <module>\n    step()\n  File \"/a/b.py\", line 71, in step\n    x = y\n";
    let mut written = snapshot("after_step_error", 1);
    written["stack_trace"] = json!(text);
    let read: MemorySnapshot = from_json(written.to_string().as_bytes()).unwrap();
    let stack = read.stack_trace.clone().unwrap();
    let frames: Vec<_> = stack.iter().map(|f| (f.filename.as_ref(), f.line, f.name.as_ref())).collect();
    assert_eq!(frames, [("/a/b.py", 71, "step"), ("/a/train.py", 3, "<module>")]);
    assert_eq!(read.operation, Operation::After("step_error".into()));
    for words in ["new_baseline", "current"] {
        let read: MemorySnapshot = from_json(snapshot(words, 1).to_string().as_bytes()).unwrap();
        assert_eq!(read.operation.to_string(), words);
    }
}

#[test]
fn a_wrong_value_of_saved_results_is_named_with_its_path() {
    let wrong = |place: &str, value: Value| {
        let mut json = saved();
        *json.pointer_mut(place).unwrap() = value;
        let error = read(&json).unwrap_err();
        error.split(" at line ").next().unwrap().to_owned()
    };
    for (place, value, said) in [
        (
            "/results/0/memory_before/allocated_memory",
            json!("many"),
            "results[0].memory_before.allocated_memory: invalid type: string \"many\", expected u64",
        ),
        (
            "/results/0/memory_allocated",
            json!(-1),
            "results[0].memory_allocated: invalid value: integer `-1`, expected u64",
        ),
        ("/results/0/execution_time", json!(-0.5), "results[0]: execution_time is out of range: -0.5 s"),
        ("/snapshots/0/timestamp", json!(1e300), "snapshots[0]: timestamp is out of range:"),
        ("/snapshots/0", json!({}), "snapshots[0]: missing field `timestamp`"),
        ("/results", json!({}), "results: invalid type: map, expected a sequence"),
        (
            "/summary/function_summaries/step/call_count",
            json!(0.5),
            "summary: function_summaries.step.call_count: invalid type: floating point `0.5`, expected u64",
        ),
        ("/summary", json!({}), "summary: missing field `device`"),
    ] {
        let error = wrong(place, value);
        assert!(error.starts_with(said), "{place}: {error}");
    }
    let cut = SavedResults::read(&saved().to_string().as_bytes()[..100]).unwrap_err().to_string();
    assert!(cut.contains("EOF while parsing"), "{cut}");
    let twice = format!("{}{}", saved(), saved());
    let error = SavedResults::read(twice.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("trailing characters"), "{error}");
    // No file content aborts the process.
    let deep = "[".repeat(1_000_000);
    for json in ["", "null", "[]", "{\"results\": NaN}", "{\"summary\": null}", &deep] {
        SavedResults::read(json.as_bytes()).unwrap_err();
    }
}
