//! Larger recordings next to the checkout, if present: files of real PyTorch with its counters.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{json, run};

pub(crate) use vramscope_testing::recordings as data;

pub(crate) fn recordings(folder: &Path) -> Vec<PathBuf> {
    let is_recording = |p: &PathBuf| {
        let name = p.file_name().unwrap().to_string_lossy();
        name.ends_with(".pickle") || name.ends_with(".pickle.zst")
    };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(is_recording).collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn sum(holders: &Value) -> u64 {
    holders.as_array().unwrap().iter().map(|h| h["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn every_recording_is_reported() {
    let Some(data) = data() else { return };
    for file in ["phantom", "real", "large"].into_iter().flat_map(|f| recordings(&data.join(f))) {
        let file = file.to_str().unwrap();
        let text = run(&["report", file]);
        assert_eq!((text.status.code(), text.stderr.len()), (Some(0), 0), "{file}");
        for device in json(&["report", file])["devices"].as_array().unwrap() {
            assert_eq!(
                Some(sum(&device["holders_at_peak"])),
                device["peak_allocated_bytes"].as_u64(),
                "{file}"
            );
        }
    }
}

#[test]
fn peaks_are_those_of_pytorchs_own_counters() {
    let Some(data) = data() else { return };
    let truth = std::fs::read_to_string(data.join("phantom/truth.jsonl")).unwrap();
    let mut exact = 0;
    for truth in truth.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()) {
        let name = truth["file"].as_str().unwrap();
        // These recordings contain only part of the run.
        if ["late", "max-entries"].iter().any(|p| name.contains(p)) {
            continue;
        }
        let report = json(&["report", data.join("phantom").join(name).to_str().unwrap()]);
        let device = report["devices"].as_array().unwrap().iter().find(|d| d["device"] == 0).unwrap();
        for kind in ["requested", "allocated", "active", "reserved"] {
            assert_eq!(device[format!("peak_{kind}_bytes")], truth[format!("peak_{kind}")], "{name}: {kind}");
        }
        assert_eq!(device["quality"]["exact"], true, "{name}");
        exact += 1;
    }
    assert!(exact > 40);
}

#[test]
fn the_counters_at_the_end_of_real_recordings_add_up() {
    let Some(data) = data() else { return };
    for file in recordings(&data.join("real")) {
        let trace = vramscope::trace::formats::read(std::fs::File::open(&file).unwrap()).unwrap().trace;
        let report = json(&["report", file.to_str().unwrap()]);
        for (device, told) in trace.devices.iter().zip(report["devices"].as_array().unwrap()) {
            let sums =
                |of: fn(&vramscope::trace::Segment) -> u64| device.segments.iter().map(of).sum::<u64>();
            // Sums stored in the file, which our reader keeps and our report does not use.
            assert_eq!(told["end_reserved_bytes"], sums(|s| s.total_size), "{}", file.display());
            assert_eq!(
                told["end_allocated_bytes"],
                sums(|s| s.allocated_size.unwrap()),
                "{}",
                file.display()
            );
            assert_eq!(told["end_active_bytes"], sums(|s| s.active_size.unwrap()), "{}", file.display());
            assert_eq!(
                told["end_requested_bytes"],
                sums(|s| s.requested_size.unwrap()),
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn only_the_leak_is_suspected() {
    let Some(data) = data() else { return };
    let mut found = 0;
    for file in recordings(&data.join("phantom")) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let report = json(&["report", file.to_str().unwrap()]);
        let leaks = &report["devices"][0]["leaks"];
        if name.starts_with("leak") {
            assert_eq!(leaks[0]["line"]["line"], 92, "{name}");
            found += 1;
        } else {
            assert_eq!(leaks, &serde_json::json!([]), "{name}");
        }
    }
    assert!(found > 0, "no recording of a leak");
}
