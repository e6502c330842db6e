//! Checks written files against PyTorch's schema, and the schema against recordings of real releases.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vramscope_testing::schema_differences;
use vramscope_trace::formats::write_pickle;

use crate::{everything, read, read_json};

/// Differences between `snapshot`, after reading and writing, and the schema.
fn differences_of(snapshot: &Value, release: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written.pickle");
    write_pickle(&read_json(snapshot).trace, std::fs::File::create(&file).unwrap()).unwrap();
    schema_differences(&[], release, &[file]).replace(&folder.path().display().to_string(), "")
}

/// A snapshot without frames in its segments and blocks.
fn without_frames() -> Value {
    let mut snapshot = everything();
    for segment in snapshot["segments"].as_array_mut().unwrap() {
        segment.as_object_mut().unwrap().remove("frames");
        for block in segment["blocks"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("frames");
        }
    }
    snapshot
}

#[test]
fn blocks_and_segments_always_have_frames() {
    let missing = differences_of(&without_frames(), "2.6");
    assert!(!missing.contains("has no `frames`"), "{missing}");
}

#[test]
fn every_device_has_a_list_of_events() {
    let segment = |device: u64| {
        json!({"device": device, "address": 4096 * device, "total_size": 512, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "small", "blocks": []})
    };
    let event = json!({"action": "alloc", "addr": 4096, "size": 8, "stream": 0});
    let settings = everything()["allocator_settings"].take();
    let s = json!({"segments": [segment(1), segment(2)], "device_traces": [[event]],
        "allocator_settings": settings, "external_annotations": []});
    let missing = differences_of(&s, "2.6");
    assert!(!missing.contains("which has no list of events"), "{missing}");
    // The added lists contain nothing.
    let trace = read_json(&s).trace;
    let mut written = Vec::new();
    write_pickle(&trace, &mut written).unwrap();
    assert!(read(&written).unwrap().trace == trace);
    // The highest supported device does not cause absurdly long lists.
    let mut written = Vec::new();
    write_pickle(&read_json(&json!({"segments": [segment(1023)], "device_traces": []})).trace, &mut written)
        .unwrap();
    assert!(written.len() < 10_000);
}

mod data {
    use super::*;

    fn recordings(folder: &Path, release: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(folder.join("phantom")).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.to_string_lossy().contains(&format!("-torch{release}-")));
        // Larger recordings have no further features, and take long without optimization.
        let files = files.filter(|path| path.metadata().unwrap().len() < 600_000);
        let files: Vec<PathBuf> = files.collect();
        assert!(files.len() >= 3, "{files:?}");
        files
    }

    /// The schema is exact: recordings of each release match it, and match no other release's schema.
    #[test]
    fn pytorchs_own_recordings_keep_to_the_schema() {
        let Some(folder) = vramscope_testing::recordings() else { return };
        for release in ["2.6", "2.11", "2.15"] {
            let files = recordings(&folder, release);
            assert_eq!(schema_differences(&["--strict"], release, &files), "");
            for other in ["2.6", "2.11", "2.15"].into_iter().filter(|&other| other != release) {
                assert_ne!(schema_differences(&["--strict"], other, &files), "", "{release} is not {other}");
            }
        }
    }

    #[test]
    fn rewritten_recordings_match_pytorchs_schema() {
        let Some(folder) = vramscope_testing::recordings() else { return };
        let written = tempfile::tempdir().unwrap();
        for release in ["2.6", "2.11", "2.15"] {
            let mut files = Vec::new();
            for path in recordings(&folder, release) {
                let trace = read(&std::fs::read(&path).unwrap()).unwrap().trace;
                files.push(written.path().join(path.file_name().unwrap()));
                write_pickle(&trace, std::fs::File::create(files.last().unwrap()).unwrap()).unwrap();
            }
            assert_eq!(schema_differences(&["--strict"], release, &files), "");
        }
    }
}
