//! `vramscope convert`: a recording through another format and back.

use std::path::Path;

use serde_json::Value;

use crate::other_tools::SAMPLES;
use crate::{json, run};

/// Converts a recording and returns the notes about lost parts.
fn convert(from: &str, to: &Path) -> Vec<String> {
    let output = run(&["convert", from, to.to_str().unwrap()]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{from}: {notes}");
    assert!(output.stdout.is_empty());
    notes.lines().filter(|line| line.contains(": lost: ")).map(str::to_owned).collect()
}

/// The devices of the report. All numbers and stacks must survive a conversion.
fn report(file: &Path) -> Value {
    let mut report = json(&["report", file.to_str().unwrap()]);
    report["devices"].take()
}

#[test]
fn a_log_and_a_pickle_have_the_same_report() {
    let folder = tempfile::tempdir().unwrap();
    for from in ["examples/oom.pickle", "examples/leak.pickle", "examples/training.pickle.zst"] {
        let [log, pickle] = ["run.vramscope", "run.pickle"].map(|name| folder.path().join(name));
        let lost = convert(from, &log);
        // A log has no names of compiled regions, and these recordings have only the name for none.
        assert!(lost.is_empty(), "{from}: {lost:?}");
        assert!(convert(log.to_str().unwrap(), &pickle).is_empty());
        let before = report(Path::new(from));
        assert_eq!(report(&log), before, "{from}");
        assert_eq!(report(&pickle), before, "{from}");
    }
}

/// A value without its texts.
fn numbers(of: &Value) -> Value {
    match of {
        Value::String(_) => Value::Null,
        Value::Array(all) => all.iter().map(numbers).collect(),
        Value::Object(all) => all.iter().map(|(key, value)| (key.clone(), numbers(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn recordings_of_other_tools_become_pickles() {
    let folder = tempfile::tempdir().unwrap();
    let pickle = folder.path().join("run.pickle");
    for from in SAMPLES {
        assert!(convert(from, &pickle).is_empty(), "{from}");
        // Labels may differ: paths are shortened by what all frames share, and a pickle has only the frames in use.
        assert_eq!(numbers(&report(&pickle)), numbers(&report(Path::new(from))), "{from}");
        let output = run(&["replay", pickle.to_str().unwrap()]);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(why.contains("whose rules are unknown here"), "{from}: {why}");
    }
}

#[test]
fn what_a_format_lacks_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("peak.svg");
    let [note] = &convert("examples/oom.pickle", &svg)[..] else { panic!("one note") };
    assert!(note.contains("lost: all but the memory allocated at one event"), "{note}");
    let told = json(&["convert", "examples/oom.pickle", svg.to_str().unwrap()]);
    assert_eq!((&told["format"], told["lost"].as_array().unwrap().len()), (&"flamegraph".into(), 1));
    // Memory of the host and of NPUs has no place in a log.
    let log = folder.path().join("run.vramscope");
    let output = run(&["convert", "fuzz/corpus/read/memscope", log.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("a log does not name the kind of its devices"), "{why}");
    assert!(!log.exists());
}

#[test]
fn the_output_needs_a_known_ending() {
    for (out, why) in [("run.bin", "does not end in one of"), ("-", "name a file: its ending selects")] {
        let output = run(&["convert", "examples/oom.pickle", out]);
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains(why), "{told}");
    }
}
