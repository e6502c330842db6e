//! `vramscope split`: each part has the numbers of its interval in the whole recording.

use std::path::Path;

use serde_json::Value;

use crate::other_tools::SAMPLES;
use crate::{json, run};

const TRAINING: &str = "examples/training.pickle.zst";

/// Splits a recording and returns the JSON.
fn split(file: &str, folder: &Path, by: [&str; 2]) -> Value {
    json(&["split", file, "-o", folder.to_str().unwrap(), by[0], by[1]])
}

/// The only device of an answer that has one.
fn device(mut answer: Value) -> Value {
    let devices = answer["devices"].as_array_mut().unwrap();
    assert_eq!(devices.len(), 1);
    devices.pop().unwrap()
}

#[test]
fn each_part_has_the_numbers_of_its_interval() {
    let folder = tempfile::tempdir().unwrap();
    let [replayed, whole] = ["replay", "report"].map(|command| device(json(&[command, TRAINING])));
    assert_eq!(replayed["exact"], true);
    for (by, least) in [(["--events", "700"], 4), (["--steps", "1"], 2), (["--time", "0.05"], 1)] {
        let parts = folder.path().join(by[0]);
        let answer = split(TRAINING, &parts, by);
        let mut next = 0;
        for part in answer["parts"].as_array().unwrap() {
            let [of] = &part["devices"].as_array().unwrap()[..] else { panic!("one device") };
            let (first, events) = (of["first_event"].as_u64().unwrap(), of["events"].as_u64().unwrap());
            assert_eq!((first, &of["repeated_events"]), (next, &0.into()));
            next += events;
            let file = part["file"].as_str().unwrap();
            let interval = device(json(&["report", TRAINING, "--at", &format!("{first}..{}", next - 1)]));
            let of_part = device(json(&["report", file, "--at", &format!("0..{}", events - 1)]));
            for key in [
                "before",
                "allocated",
                "freed",
                "freed_from_before",
                "survived",
                "after",
                "highest_allocated_bytes",
            ] {
                assert_eq!(of_part[key], interval[key], "{by:?} {file} {key}");
            }
            let report = device(json(&["report", file]));
            let peak = of_part["highest_allocated_bytes"].as_u64().max(report["preexisting_bytes"].as_u64());
            assert_eq!(report["peak_allocated_bytes"].as_u64(), peak, "{file}");
            assert_eq!(report["quality"]["inferred_sizes"], 0, "{file}");
            let replay = device(json(&["replay", file]));
            assert_eq!(
                (&replay["reproduces_recording"], &replay["exact"]),
                (&true.into(), &true.into()),
                "{file}: {replay:#}"
            );
        }
        assert_eq!(next, whole["events"].as_u64().unwrap(), "{by:?}");
        assert!(answer["parts"].as_array().unwrap().len() >= least, "{by:?}");
        assert_eq!(answer["lost"], Value::Array(Vec::new()));
    }
}

#[test]
fn recordings_of_other_tools_are_split() {
    let folder = tempfile::tempdir().unwrap();
    // A profile of JAX has no events, and msMemScope has allocations outside of its segments.
    let has_parts = |sample: &&str| !sample.ends_with("jax") && !sample.ends_with("memscope");
    for sample in SAMPLES.into_iter().filter(has_parts) {
        let parts = folder.path().join(sample.rsplit('/').next().unwrap());
        let answer = split(sample, &parts, ["--events", "5"]);
        let whole = json(&["report", sample]);
        let mut peaks = std::collections::BTreeMap::new();
        for part in answer["parts"].as_array().unwrap() {
            let report = json(&["report", part["file"].as_str().unwrap()]);
            for device in report["devices"].as_array().unwrap() {
                let peak: &mut u64 = peaks.entry(device["device"].as_i64()).or_default();
                *peak = device["peak_allocated_bytes"].as_u64().unwrap().max(*peak);
            }
        }
        for device in whole["devices"].as_array().unwrap() {
            let peak = peaks.get(&device["device"].as_i64()).copied();
            assert_eq!(peak, device["peak_allocated_bytes"].as_u64(), "{sample}");
        }
    }
}

#[test]
fn a_split_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    let new = new.to_str().unwrap();
    let full = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (args, why) in [
        (["split", TRAINING, "-o", full, "--events", "9"], "is not empty; name a new folder"),
        (["split", TRAINING, "-o", new, "--time", "0"], "must be at least a microsecond"),
        (["split", TRAINING, "-o", new, "--time", "0.000001"], "more than 9999 parts; choose longer parts"),
        (["split", "examples/oom.pickle", "-o", new, "--steps", "1"], "no steps; split it by events or time"),
        (["split", "fuzz/corpus/read/jax", "-o", new, "--events", "1"], "has no events, so it has no parts"),
        (["split", "fuzz/corpus/read/jax", "-o", new, "--events", "0"], "0 is not in 1"),
    ] {
        let output = run(&args);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(told.contains(why), "{told}");
    }
    assert!(!Path::new(new).exists());
    let text = run(&["split", "examples/oom.pickle", "-o", new, "--events", "2000"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("part-0000.pickle  device 0: ") && text.contains("from event 0"), "{text}");
}
