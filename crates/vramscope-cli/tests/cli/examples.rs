//! Complete outputs for the README's recordings.

use insta_cmd::assert_cmd_snapshot;

use crate::{json, run, vramscope};

#[test]
fn an_out_of_memory_run() {
    assert_cmd_snapshot!(vramscope(&["report", "examples/oom.pickle"]));
}

#[test]
fn a_leak() {
    assert_cmd_snapshot!(vramscope(&["report", "examples/leak.pickle"]));
}

#[test]
fn a_training_run_with_regions() {
    assert_cmd_snapshot!(vramscope(&["report", "examples/training.pickle.zst"]));
}

#[test]
fn the_facts_of_a_file() {
    assert_cmd_snapshot!(vramscope(&["info", "examples/training.pickle.zst"]));
}

#[test]
fn the_facts_of_a_file_as_json() {
    assert_cmd_snapshot!(vramscope(&["info", "examples/oom.pickle", "--json"]));
}

#[test]
fn the_failure_is_told_in_words() {
    let text = String::from_utf8(run(&["report", "examples/oom.pickle"]).stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(
            "a request of 223.24 MiB failed, likely because of fragmentation: 1.61 GiB is free in 52 blocks"
        ),
        "{text}"
    );
    let oom = &json(&["report", "examples/oom.pickle"])["devices"][0]["ooms"][0];
    assert_eq!(oom["reserved_unused_bytes"], 1_738_727_936u64);
    assert_eq!(oom["enough_in_total"], true);
}

#[test]
fn the_leaking_line_is_the_first_suspect() {
    let leaks = &json(&["report", "examples/leak.pickle"])["devices"][0]["leaks"];
    assert_eq!(leaks[0]["line"]["filename"], "/home/user/workloads.py");
    assert_eq!(leaks[0]["line"]["line"], 92);
    for quiet in ["examples/training.pickle.zst", "examples/oom.pickle"] {
        assert_eq!(json(&["report", quiet])["devices"][0]["leaks"], serde_json::json!([]), "{quiet}");
    }
}

#[test]
fn the_report_as_json_keeps_its_contract() {
    let report = json(&["report", "examples/oom.pickle"]);
    assert_eq!(report["file"], "examples/oom.pickle");
    assert_eq!(report["format"], "pickle");
    let device = &report["devices"][0];
    for key in [
        "device",
        "events",
        "peak_event",
        "peak_time_us",
        "peak_requested_bytes",
        "peak_allocated_bytes",
        "peak_active_bytes",
        "peak_reserved_bytes",
        "end_allocated_bytes",
        "end_reserved_bytes",
        "preexisting_bytes",
        "holders_at_peak",
        "ooms",
        "leaks",
        "fragmentation",
    ] {
        assert!(!device[key].is_null(), "{key}");
    }
    let held: u64 =
        device["holders_at_peak"].as_array().unwrap().iter().map(|h| h["bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(held), device["peak_allocated_bytes"].as_u64());
    let frame = &device["holders_at_peak"][0]["stack"][0];
    assert_eq!((&frame["name"], &frame["line"]), (&"churn".into(), &100.into()));
}
