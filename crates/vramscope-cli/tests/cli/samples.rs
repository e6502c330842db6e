//! `vramscope report` on logs of samples, and on every other file that our programs write.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use insta_cmd::assert_cmd_snapshot;

use crate::{json, root, run, vramscope};

const MIB: u64 = 1 << 20;

/// A log of the Rust tracker with ten samples per second: allocated bytes grow until the device is full.
fn leak() -> String {
    let mut text = "{\"time_us\":0,\"event\":\"start\",\"message\":\"pool on device 0\"}\n".to_owned();
    for n in 0..300u64 {
        let now = 4000 + [0, 300, 900, 1400, 600, 100][n as usize % 6] + 4 * n;
        let [now, high, reserved, used] = [now, 5600 + 4 * n, 7000, 7600].map(|mib| mib * MIB);
        let time = n * 100_000;
        writeln!(text, "{{\"time_us\":{time},\"event\":\"sample\",\"requested_bytes\":{},\"allocated_bytes\":{now},\"active_bytes\":{now},\"reserved_bytes\":{reserved},\"device_used_bytes\":{used},\"device_total_bytes\":{},\"process_used_bytes\":{},\"high_allocated_bytes\":{high},\"high_is_exact\":true,\"num_alloc_retries\":{},\"num_ooms\":{}}}", now - 777, 8192 * MIB, 7400 * MIB, n / 100, n / 299).unwrap();
    }
    text +=
        "{\"time_us\":29900000,\"event\":\"oom\",\"message\":\"a request failed because memory ran out\"}\n";
    text += "{\"time_us\":29950000,\"event\":\"gone\",\"message\":\"training is gone\"}\n";
    text
}

/// `report` on a file with these bytes.
fn report_on(name: &str, bytes: &[u8], args: &[&str]) -> Command {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
    std::fs::write(directory.join(name), bytes).unwrap();
    let mut command = vramscope(&[&["report", name], args].concat());
    command.current_dir(directory);
    command
}

#[test]
fn a_leak_that_ends_out_of_memory() {
    assert_cmd_snapshot!(report_on("run.jsonl", leak().as_bytes(), &[]));
}

/// A log of the Python package's `MemoryTracker`.
#[test]
fn a_log_of_the_python_tracker() {
    assert_cmd_snapshot!(vramscope(&["report", "examples/tracker.csv.zst", "--device", "0"]));
    assert_cmd_snapshot!(vramscope(&["report", "examples/tracker.csv.zst", "--json", "--top", "2"]));
}

/// A log whose writer was killed is read up to its end.
#[test]
fn a_log_that_is_cut_off() {
    let log = leak();
    assert_cmd_snapshot!(report_on("run.jsonl", &log.as_bytes()[..log.len() / 8], &["--top", "1"]));
}

#[test]
fn options_that_ask_for_allocations_are_refused() {
    for option in [&["--by", "line"][..], &["--at", "3"], &["--filter", "x"], &["--full-stacks"]] {
        let output = run(&[&["report", "examples/tracker.csv.zst"], option].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = format!(
            "error: examples/tracker.csv.zst: {} needs allocations, which a log of samples does not have; give a recording\n",
            option[0]
        );
        assert_eq!((output.status.code(), said), (Some(2), expected));
    }
    assert_cmd_snapshot!(vramscope(&["report", "examples/tracker.csv.zst", "--device", "3"]));
    assert_cmd_snapshot!(report_on("run.jsonl", leak().as_bytes(), &["--device", "0"]));
}

#[test]
fn other_commands_refuse_a_log_of_samples_with_advice() {
    let log = "examples/tracker.csv.zst";
    let expected = format!(
        "error: {log}: a log of samples, not a recording: it has no allocations; `vramscope report` reads it, and `vramscope run` or `vramscope.torch.record` makes a recording\n"
    );
    for args in [
        &["replay", log][..],
        &["check", log, "--max-peak", "1GiB"],
        &["export", log, "--format", "csv"],
        &["info", log],
        &["diff", log, log],
    ] {
        let output = run(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said), (Some(2), expected.clone()), "{args:?}");
    }
}

/// For each answer, page and table that is not a recording, the error names its kind and the remedy.
#[test]
fn every_file_of_ours_is_read_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let answers: [(&str, &[&str]); 8] = [
        ("report", &["report", "examples/leak.pickle"]),
        ("check", &["check", "examples/leak.pickle", "--max-peak", "1"]),
        ("replay", &["replay", "examples/leak.pickle"]),
        ("diff", &["diff", "examples/oom.pickle", "examples/leak.pickle"]),
        ("info", &["info", "examples/leak.pickle"]),
        ("top", &["top"]),
        ("cards", &["phantom", "list"]),
        ("samples", &["report", "examples/tracker.csv.zst"]),
    ];
    let mut names = Vec::new();
    for (name, args) in answers {
        let output = run(&[args, &["--json"]].concat());
        std::fs::write(at(name), output.stdout).unwrap();
        names.push(name);
    }
    std::fs::write(at("text"), run(&["report", "examples/leak.pickle"]).stdout).unwrap();
    for format in ["csv", "parquet", "pprof", "folded", "flamegraph", "chrome"] {
        let output = run(&["export", "examples/leak.pickle", "--format", format, "--output", &at(format)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        names.push(format);
    }
    run(&["view", "--html", &at("page"), "examples/leak.pickle"]);
    run(&["check", "examples/leak.pickle", "--max-peak", "1", "--junit", &at("junit")]);
    names.extend(["text", "page", "junit"]);
    for (name, text) in [
        ("manifest.json", r#"{"schema_version": 1, "bundle_name": "b", "reason": "r", "files": []}"#),
        ("rust-manifest.json", r#"{"version": 1, "time_us": 5, "reason": "r", "files": []}"#),
        ("metadata.json", r#"{"reason": "r", "custom_metadata": {}}"#),
        ("environment.json", r#"{"pid": 1, "variables": {}}"#),
        ("hook.json", r#"{"total_used_bytes": 1, "call_history": []}"#),
        ("lines.json", r#"{"nodes": [], "threads": [], "device_ids": []}"#),
        ("tests.json", r#"{"tests": {}}"#),
        ("monitor.json", r#"{"source": "s", "output": null, "ended": "gone", "samples": 1}"#),
        ("phantom.json", r#"{"command": [], "gpu": "a100", "fits": true}"#),
    ] {
        std::fs::write(at(name), text).unwrap();
        names.push(name);
    }
    let mut said = String::new();
    for name in names {
        let output = run(&["report", &at(name)]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        said += &String::from_utf8(output.stderr).unwrap().replace(&at(name), name);
    }
    insta::assert_snapshot!(said);
}

/// The folder of an out-of-memory failure.
#[test]
fn a_bundle_is_named_with_what_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("oom_dump_1");
    std::fs::create_dir(&bundle).unwrap();
    std::fs::copy(root().join("examples/oom.pickle"), bundle.join("snapshot.pickle")).unwrap();
    std::fs::write(bundle.join("log.jsonl"), leak()).unwrap();
    let mut command = vramscope(&["report", "oom_dump_1"]);
    assert_cmd_snapshot!(command.current_dir(folder.path()));
    let log = bundle.join("log.jsonl");
    assert_eq!(json(&["report", log.to_str().unwrap()])["format"], "samples_jsonl");
}

/// Bundles of the current format, and of the formats that the Python and the Rust profiler had before.
#[test]
fn bundles_of_all_formats_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let rows = format!("[{}]", leak().lines().collect::<Vec<_>>().join(","));
    let before = r#"[{"timestamp": 1.5, "event_type": "sample", "memory_allocated": 7, "memory_reserved": 9, "memory_change": 0,
        "device_id": 0, "context": null, "metadata": {"high_allocated_bytes": 8}, "device_used": 20, "device_total": 30}]"#;
    let leak = leak();
    let logs = [
        ("oom_dump_20261121T184211Z_1_1", "events.json", rows.as_str(), "samples_json"),
        ("oom_dump_20261121T184211Z_1_cuda_1", "events.json", before, "samples_json"),
        ("oom-20261121T184211Z-1-1", "log.jsonl", leak.as_ref(), "samples_jsonl"),
    ];
    for (name, log, text, format) in logs {
        let bundle = folder.path().join(name);
        std::fs::create_dir(&bundle).unwrap();
        std::fs::write(bundle.join("manifest.json"), r#"{"version": 1, "files": []}"#).unwrap();
        std::fs::write(bundle.join(log), text).unwrap();
        let answer = json(&["report", bundle.to_str().unwrap()]);
        assert_eq!(answer["format"], format, "{name}");
        assert_eq!(answer["bad_rows"], 0, "{name}");
        assert!(answer["devices"][0]["samples"].as_u64().unwrap() >= 1, "{name}: {answer}");
        std::fs::copy(root().join("examples/oom.pickle"), bundle.join("snapshot.pickle")).unwrap();
        assert_eq!(json(&["report", bundle.to_str().unwrap()])["format"], "pickle", "{name}");
    }
}

/// A log that `vramscope monitor` wrote about this process can be read.
#[test]
#[cfg(target_os = "linux")]
fn what_the_monitor_writes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run.csv", "run.jsonl"] {
        let log = folder.path().join(name);
        let pid = std::process::id().to_string();
        let args =
            ["monitor", &pid, "--interval", "0.01", "--duration", "0.3", "--output", log.to_str().unwrap()];
        assert!(run(&args).status.success());
        let answer = json(&["report", log.to_str().unwrap()]);
        let device = &answer["devices"][0];
        assert!(device["samples"].as_u64().unwrap() >= 2, "{answer}");
        assert_eq!(
            (&device["main"], &answer["ended"], &answer["cut_off"]),
            (&"cpu".into(), &"stopped".into(), &false.into())
        );
        assert_eq!(answer["bad_rows"], 0);
    }
    assert!(!Path::new("run.csv").exists());
}
