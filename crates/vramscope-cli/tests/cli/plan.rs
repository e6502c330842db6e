//! Runs `vramscope plan` as a user does.

use insta_cmd::assert_cmd_snapshot;
use serde_json::json;

use crate::{json, run, vramscope};

const TRAINING: &str = "examples/training.pickle.zst";

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["plan", "--help"]));
}

#[test]
fn a_training_run() {
    assert_cmd_snapshot!(vramscope(&["plan", TRAINING]));
}

#[test]
fn a_written_plan_gives_the_same_replay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.plan");
    let path = path.to_str().unwrap();
    let made = json(&["plan", TRAINING, "-o", path]);
    let auto = json(&["replay", TRAINING, "--plan", "auto"]);
    let mut given = json(&["replay", TRAINING, "--plan", path]);
    assert_eq!(made, auto);
    let step = made["devices"][0]["plan"]["step"].clone();
    assert!(step.is_number());
    // A file does not name the step.
    let of_given = &mut given["devices"][0]["plan"]["step"];
    assert!(of_given.is_null());
    *of_given = step;
    assert_eq!(given, made);
    // The whole recording follows its own plan, and needs less memory than under the best setting.
    let plan = &made["devices"][0]["plan"];
    assert_eq!(plan["differing"]["requests"], 0);
    let best = made["devices"][0]["what_if"][0]["peak_reserved_bytes"].as_u64().unwrap();
    assert!(plan["peak_reserved_bytes"].as_u64().unwrap() < best);
}

/// A program whose two streams need 40 MiB one after the other.
fn two_streams(folder: &std::path::Path) -> String {
    let mut events = Vec::new();
    for step in 0..4_u64 {
        for stream in [0, 7_u64] {
            let address = (1 << 40) + stream * (1 << 30);
            for action in ["alloc", "free_requested", "free_completed"] {
                events.push(json!({"action": action, "addr": address, "size": 40 << 20, "stream": stream,
                    "time_us": step * 100 + events.len() as u64, "frames": []}));
            }
        }
    }
    let path = folder.join("two_streams.json");
    let snapshot = json!({"segments": [], "device_traces": [events]});
    std::fs::write(&path, snapshot.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn share_streams_lets_streams_share_the_memory_of_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let recording = two_streams(folder.path());
    let path = folder.path().join("run.plan");
    let path = path.to_str().unwrap();
    let output = run(&["plan", &recording, "--share-streams"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["  plan, streams share memory\n", "  plan, streams apart\n", "Streams share them. "] {
        assert!(text.contains(line), "{text}");
    }
    let made = json(&["plan", &recording, "--share-streams", "-o", path]);
    let plan = &made["devices"][0]["plan"];
    assert_eq!(plan["peak_reserved_bytes"], 40 << 20);
    assert_eq!(plan["separate"]["peak_reserved_bytes"], 80 << 20);
    assert_eq!(
        (plan["shares_streams"].as_bool(), plan["planned"]["requests"].as_u64()),
        (Some(true), Some(8))
    );
    assert_eq!(plan["waits"], 7);
    let given = json(&["replay", &recording, "--plan", path]);
    let given = &given["devices"][0]["plan"];
    for key in
        ["peak_reserved_bytes", "waits", "waits_per_step", "planned", "shares_streams", "planned_bytes"]
    {
        assert_eq!(given[key], plan[key], "{key}");
    }
    assert!(given["separate"].is_null());
    let apart = json(&["plan", &recording]);
    let apart = &apart["devices"][0]["plan"];
    assert_eq!((apart["shares_streams"].as_bool(), apart["waits"].as_u64()), (Some(false), Some(0)));
    assert_eq!(apart["peak_reserved_bytes"], 80 << 20);
}

/// Nothing is gained if there is one stream: the plan is that without the option.
#[test]
fn a_plan_of_one_stream_shares_nothing() {
    let shared = json(&["plan", TRAINING, "--share-streams"]);
    assert_eq!(shared, json(&["plan", TRAINING]));
    assert_eq!(shared["devices"][0]["plan"]["shares_streams"], false);
    let told = String::from_utf8(run(&["plan", TRAINING, "--share-streams"]).stderr).unwrap();
    assert!(told.contains("streams that share memory need no fewer bytes"), "{told}");
}

#[test]
fn a_file_that_is_no_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.plan");
    let request = |offset: u64| json!([[512, 0, offset]]);
    let plan = |version: u32, segments: serde_json::Value, step: serde_json::Value| {
        json!({"vramscope_plan": version, "segments": segments, "startup": [], "step": step}).to_string()
    };
    let page = 2_u64 << 20;
    for (text, why) in [
        (String::new(), "not a plan of `vramscope plan`"),
        ("[".repeat(100_000), "not a plan of `vramscope plan`"),
        ("{\"vramscope_plan\": 1}".to_owned(), "missing field"),
        (plan(3, json!([page]), json!([])), "version 3 of plans is unknown"),
        (plan(2, json!([page, page]), json!([])), "version 2 of plans has one segment, not 2"),
        (
            plan(2, json!([page]), json!([[512, 9, page]])),
            "request 0 of `step`: the block ends after its segment",
        ),
        (plan(1, json!([page + 1]), json!([])), "segment 0 is not from 1 to 2^50 bytes"),
        (plan(1, json!([page]), request(page)), "request 0 of `step`: the block ends after its segment"),
        (plan(1, json!([page]), request(u64::MAX)), "the offset is not a multiple of 512 bytes"),
        (plan(1, json!([]), request(0)), "the stream has no segment"),
        (plan(1, json!([page]), json!([[512, 0, -1]])), "invalid value"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let output = run(&["replay", TRAINING, "--plan", path.to_str().unwrap()]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why), "{told}");
    }
    let output = run(&["replay", TRAINING, "--plan", "nowhere/run.plan"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot read the plan"));
}
