//! Options of the subcommands.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use insta_cmd::assert_cmd_snapshot;

use crate::{json, root, run, vramscope};

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["--help"]));
    assert_cmd_snapshot!(vramscope(&["report", "--help"]));
}

#[test]
fn grouping_instead_of_the_tree() {
    let by = |by: &str| {
        let text = run(&["report", "examples/training.pickle.zst", "--by", by, "--top", "4"]);
        let text = String::from_utf8(text.stdout).unwrap();
        let rows = text.lines().skip_while(|l| !l.starts_with("Holders of")).take_while(|l| !l.is_empty());
        format!("--by {by}\n{}\n", rows.collect::<Vec<_>>().join("\n"))
    };
    let all = ["line", "function", "file", "module", "stack", "pool", "stream"].map(by);
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn any_moment() {
    assert_cmd_snapshot!(vramscope(&[
        "report",
        "examples/training.pickle.zst",
        "--at",
        "1200",
        "--top",
        "2"
    ]));
}

/// Splits a text report: lines outside of stacks, and one list of frames per stack.
fn rows_and_stacks(report: &str) -> (Vec<String>, Vec<Vec<&str>>) {
    const FRAME: &str = "               ";
    let (mut rows, mut stacks) = (Vec::new(), Vec::new());
    for lines in
        report.lines().collect::<Vec<_>>().chunk_by(|a, b| a.starts_with(FRAME) == b.starts_with(FRAME))
    {
        if lines[0].starts_with(FRAME) {
            let frames: Vec<&str> = lines.iter().map(|line| &line[FRAME.len()..]).collect();
            let [first, .., last] = frames[..] else { panic!("a stack of {frames:?}") };
            rows.push(format!("{FRAME}{} frames, from {first} to {last}", frames.len()));
            stacks.push(frames);
        } else {
            rows.extend(lines.iter().map(|&line| line.to_owned()));
        }
    }
    (rows, stacks)
}

/// The snapshot has one line per stack; the frames are compared with those of the JSON report.
#[test]
fn full_stacks_show_every_frame() {
    let args = ["report", "examples/training.pickle.zst", "--at", "1200", "--full-stacks", "--top", "2"];
    let text = String::from_utf8(run(&args).stdout).unwrap();
    let (_, sections) = text.split_once("\nHolders of").unwrap();
    let (rows, stacks) = rows_and_stacks(sections);
    insta::assert_snapshot!(rows.join("\n"));

    let report = json(&args);
    let holders = report["devices"][0]["at"]["holders"].as_array().unwrap();
    for (holder, stack) in holders.iter().zip(&stacks).take(2) {
        let frames: Vec<String> = holder["stack"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| {
                let [file, name] = ["filename", "name"].map(|key| f[key].as_str().unwrap());
                format!("{file}:{} {name}", f["line"])
            })
            .collect();
        assert_eq!(stack, &frames);
    }
}

#[test]
fn holders_at_any_moment_sum_to_what_is_allocated() {
    for at in ["0", "17", "400", "1234", "2060"] {
        let report = json(&["report", "examples/oom.pickle", "--at", at]);
        let at = &report["devices"][0]["at"];
        let held: u64 = at["holders"].as_array().unwrap().iter().map(|h| h["bytes"].as_u64().unwrap()).sum();
        assert_eq!(Some(held), at["allocated_bytes"].as_u64());
    }
}

#[test]
fn a_filter_tells_what_it_left_out() {
    let device = |args: &[&str]| {
        json(&[&["report", "examples/training.pickle.zst"], args].concat())["devices"][0].clone()
    };
    let filtered = device(&["--filter", r"workloads\.py:19 "]);
    let held: u64 =
        filtered["holders_at_peak"].as_array().unwrap().iter().map(|h| h["bytes"].as_u64().unwrap()).sum();
    let left_out = filtered["filtered_out_bytes"].as_u64().unwrap();
    assert!(held > 0 && left_out > 0);
    assert_eq!(Some(held + left_out), device(&[])["peak_allocated_bytes"].as_u64());
}

#[test]
fn a_filter_takes_the_same_bytes_however_they_are_grouped() {
    let held = |by: &str| {
        let filter = ["--filter", r"workloads\.py:19 ", "--by", by];
        let report = json(&[&["report", "examples/training.pickle.zst"], &filter[..]].concat());
        let device = &report["devices"][0];
        let held: u64 =
            device["holders_at_peak"].as_array().unwrap().iter().map(|h| h["bytes"].as_u64().unwrap()).sum();
        assert_eq!(
            device["peak_allocated_bytes"],
            held + device["filtered_out_bytes"].as_u64().unwrap(),
            "{by}"
        );
        held
    };
    let by_stack = held("stack");
    assert!(by_stack > 0);
    for by in ["line", "function", "file", "module", "pool", "stream"] {
        assert_eq!(held(by), by_stack, "{by}");
    }
}

#[test]
fn a_device_or_an_event_that_is_not_there() {
    assert_cmd_snapshot!(vramscope(&["report", "examples/oom.pickle", "--device", "3"]));
    assert_cmd_snapshot!(vramscope(&["report", "examples/oom.pickle", "--at", "99999"]));
    assert_cmd_snapshot!(vramscope(&["report", "examples/oom.pickle", "--filter", "("]));
}

#[test]
fn standard_input() {
    let mut child = vramscope(&["info", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes = std::fs::read(root().join("examples/leak.pickle")).unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("standard input\n  format      pickle, protocol 4\n"), "{text}");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = vramscope(&["report", "examples/training.pickle.zst", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_stack_of_any_depth() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("deep.json");
    let frames: Vec<String> =
        (0..200_000).map(|i| format!(r#"{{"name": "f", "filename": "a.py", "line": {i}}}"#)).collect();
    let event = |addr| {
        format!(
            r#"{{"action": "alloc", "addr": {addr}, "size": 9, "stream": 0, "frames": [{}]}}"#,
            frames.join(",")
        )
    };
    std::fs::write(&file, format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, event(512))).unwrap();
    for options in [&[][..], &["--full-stacks"], &["--by", "stack"], &["--json"]] {
        let output = run(&[&["report", file.to_str().unwrap()], options].concat());
        assert!(output.status.success(), "{options:?}");
    }
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("full-stacks"), "{shell}");
    }
}

#[test]
fn a_log_of_a_program_that_was_killed() {
    assert_cmd_snapshot!(vramscope(&["info", "fuzz/corpus/read/log-cut"]));
    let log = json(&["info", "fuzz/corpus/read/log"]);
    assert_eq!((&log["format"], &log["generation"]), (&"log".into(), &serde_json::Value::Null));
}

#[test]
fn unknown_keys_are_named_once_on_stderr() {
    let directory = tempfile::tempdir().unwrap();
    let event = r#"{"action": "alloc", "addr": 512, "size": 9, "stream": 0, "shape": [3]}"#;
    let text = format!(r#"{{"segments": [], "device_traces": [[{event}]], "host": "a7"}}"#);
    std::fs::write(directory.path().join("odd.json"), text).unwrap();
    let mut command = vramscope(&["info", "odd.json"]);
    command.current_dir(directory.path());
    assert_cmd_snapshot!(command);
}

#[test]
fn a_range_of_events() {
    let of = |options: &[&str]| {
        vramscope(&[&["report", "examples/training.pickle.zst", "--at"], options].concat())
    };
    assert_cmd_snapshot!("range-category", of(&["2700..3500", "--by", "category"]));
    assert_cmd_snapshot!("range-filter", of(&["2700..3500", "--filter", "resnet50", "--top", "3"]));
    assert_cmd_snapshot!("range-backwards", of(&["9..3"]));
    assert_cmd_snapshot!("range-beyond", of(&["5000..6000"]));
    assert_cmd_snapshot!("range-no-number", of(&["a..9"]));
    let told = json(&["report", "examples/training.pickle.zst", "--at", "2700..3500", "--by", "layer"]);
    let device = &told["devices"][0];
    let bytes = |of: &serde_json::Value, name: &str| of[name]["bytes"].as_u64().unwrap();
    for name in
        ["before", "allocated", "freed", "freed_from_before", "temporary", "survived", "at_highest", "after"]
    {
        let sum: u64 = device["groups"].as_array().unwrap().iter().map(|group| bytes(group, name)).sum();
        assert_eq!((sum, sum), (bytes(device, name), bytes(&device["filtered"], name)), "{name}");
    }
    assert_eq!(
        bytes(device, "before") + bytes(device, "allocated") - bytes(device, "freed"),
        bytes(device, "after")
    );
    // Its end states equal those of the report at one event.
    let allocated = |at: &str| {
        json(&["report", "examples/training.pickle.zst", "--at", at])["devices"][0]["at"]["allocated_bytes"]
            .clone()
    };
    assert_eq!(allocated("2699"), device["before"]["bytes"]);
    assert_eq!(allocated("3500"), device["after"]["bytes"]);
}
