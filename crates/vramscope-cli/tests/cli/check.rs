//! Runs `vramscope check` as a user does.

use std::path::Path;
use std::process::Stdio;

use insta_cmd::assert_cmd_snapshot;
use serde_json::{Value, json};

use crate::{run, vramscope};

const OOM: &str = "examples/oom.pickle";
const LEAK: &str = "examples/leak.pickle";
const TRAINING: &str = "examples/training.pickle.zst";

/// Exit code, stdout and stderr.
fn text(args: &[&str]) -> (i32, String, String) {
    let output = run(&[&["check"], args].concat());
    let words = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), words(output.stdout), words(output.stderr))
}

fn answer(args: &[&str]) -> (i32, Value) {
    let (code, out, err) = text(&[args, &["--json"]].concat());
    assert_eq!(err, "");
    (code, serde_json::from_str(&out).unwrap())
}

/// A file `name` with a snapshot that has these events for each device.
fn snapshot(folder: &Path, name: &str, devices: &[Vec<Value>]) -> String {
    let settings = json!({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": false});
    let snapshot = json!({"segments": [], "device_traces": devices, "allocator_settings": settings});
    let file = folder.join(name);
    std::fs::write(&file, snapshot.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn alloc(address: u64, size: u64, line: u32, name: &str) -> Value {
    let frame = json!({"name": name, "filename": "/home/user/train.py", "line": line});
    json!({"action": "alloc", "addr": address, "size": size, "stream": 0, "frames": [frame]})
}

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["check", "--help"]));
}

#[test]
fn budgets_that_are_kept() {
    assert_cmd_snapshot!(vramscope(&[
        "check",
        TRAINING,
        "--max-peak",
        "3GiB",
        "--max-reserved",
        "4GB",
        "--no-leaks",
        "--no-oom"
    ]));
}

#[test]
fn budgets_that_are_exceeded() {
    assert_cmd_snapshot!(vramscope(&[
        "check",
        TRAINING,
        "--max-peak",
        "2.5GiB",
        "--max-reserved",
        "3GiB",
        "--no-oom"
    ]));
}

#[test]
fn a_leak_is_a_finding() {
    assert_cmd_snapshot!(vramscope(&["check", LEAK, "--no-leaks"]));
}

#[test]
fn an_out_of_memory_is_a_finding() {
    assert_cmd_snapshot!(vramscope(&["check", OOM, "--no-oom", "--no-leaks"]));
}

#[test]
fn an_out_of_memory_is_noted_without_the_budget_no_oom() {
    assert_cmd_snapshot!(vramscope(&["check", OOM, "--max-peak", "8GiB"]));
}

#[test]
fn growth_over_itself_is_none() {
    assert_cmd_snapshot!(vramscope(&["check", LEAK, "--baseline", LEAK]));
}

#[test]
fn growth_over_another_names_the_lines() {
    assert_cmd_snapshot!(vramscope(&["check", TRAINING, "--baseline", LEAK, "--max-growth", "5%"]));
}

#[test]
fn check_needs_a_budget() {
    assert_cmd_snapshot!(vramscope(&["check", OOM]));
    assert_cmd_snapshot!(vramscope(&["check", OOM, "--max-peak", "1GiB", "--max-growth", "5%"]));
}

#[test]
fn verdicts_as_json() {
    assert_cmd_snapshot!(vramscope(&[
        "check",
        LEAK,
        "--max-peak",
        "50MiB",
        "--baseline",
        TRAINING,
        "--max-growth",
        "64MiB",
        "--json"
    ]));
}

#[test]
fn the_exit_code_says_whether_all_budgets_are_kept() {
    for (args, code) in [
        (vec![OOM, "--max-peak", "7GiB"], 0),
        (vec![OOM, "--max-peak", "6GiB"], 1),
        (vec![OOM, "--max-peak", "7GiB", "--no-oom"], 1),
        (vec![OOM, "--max-reserved", "7GiB"], 1),
        (vec![OOM, "--no-leaks"], 0),
        (vec![LEAK, "--no-leaks"], 1),
        (vec![LEAK, "--baseline", OOM], 0),
        (vec![OOM, "--baseline", LEAK], 1),
        (vec![OOM, "--baseline", LEAK, "--max-growth", "8GiB"], 0),
        (vec![OOM, "--baseline", LEAK, "--max-growth", "20000%"], 0),
    ] {
        assert_eq!(text(&args).0, code, "{args:?}");
        let (as_json, answer) = answer(&args);
        assert_eq!((as_json, answer["kept"].as_bool()), (code, Some(code == 0)), "{args:?} --json");
    }
}

/// The budget is compared with the exact bytes of `report`.
#[test]
fn peaks_are_those_of_the_report() {
    for file in [OOM, LEAK, TRAINING] {
        let device = &crate::json(&["report", file])["devices"][0];
        for (option, key) in
            [("--max-peak", "peak_allocated_bytes"), ("--max-reserved", "peak_reserved_bytes")]
        {
            let peak = device[key].as_u64().unwrap();
            assert_eq!(text(&[file, option, &peak.to_string()]).0, 0, "{file} {option}");
            let (code, answer) = answer(&[file, option, &(peak - 1).to_string()]);
            let verdict = &answer["devices"][0]["verdicts"][0];
            assert_eq!((code, verdict["peak"]["bytes"].as_u64()), (1, Some(peak)), "{file} {option}");
            assert_eq!(verdict["status"], "exceeded");
            let held: u64 =
                verdict["holders"].as_array().unwrap().iter().map(|h| h["bytes"].as_u64().unwrap()).sum();
            assert_eq!(verdict["peak"]["allocated_bytes"], held);
        }
    }
}

#[test]
fn a_change_is_found_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let old = [alloc(1 << 20, 4096, 10, "load"), alloc(2 << 20, 512, 20, "step")];
    let mut new = old.to_vec();
    new.push(alloc(3 << 20, 8192, 21, "step"));
    let old = snapshot(folder.path(), "old.json", &[old.to_vec()]);
    let new = snapshot(folder.path(), "new.json", &[new]);
    let (code, out, _) = text(&[&new, "--baseline", &old, "--max-growth", "4KiB"]);
    assert_eq!(code, 1);
    let found = "peak of allocated bytes on device 0: 12.50 KiB, 8.00 KiB above the baseline's 4.50 KiB; more than --max-growth 4.00 KiB\n";
    assert!(out.contains(found), "{out}");
    assert!(out.contains("     +8.00 KiB  train.py:21 step  8.00 KiB, new\n"), "{out}");
    assert!(!out.contains("train.py:20") && !out.contains("train.py:10"), "{out}");
    assert_eq!(text(&[&new, "--baseline", &old, "--max-growth", "8KiB"]).0, 0);
    assert_eq!(text(&[&old, "--baseline", &new]).0, 0);
}

#[test]
fn a_function_whose_lines_moved_is_named_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let moved = |by: u32| [alloc(1 << 20, 4096, 10 + by, "step"), alloc(2 << 20, 512, 11 + by, "step")];
    let old = snapshot(folder.path(), "old.json", &[moved(0).to_vec()]);
    let mut new = moved(1).to_vec();
    new.push(alloc(3 << 20, 1024, 13, "step"));
    let new = snapshot(folder.path(), "new.json", &[new]);
    let (code, out, _) = text(&[&new, "--baseline", &old]);
    assert_eq!(code, 1);
    let row = "     +1.00 KiB  train.py:11 step and other lines of the function  5.50 KiB, was 4.50 KiB\n";
    assert!(out.contains(row), "{out}");
}

#[test]
fn devices_that_only_one_of_the_two_has_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let used = |bytes| vec![alloc(1 << 20, bytes, 10, "load")];
    let one = snapshot(folder.path(), "one.json", &[used(512)]);
    let two = snapshot(folder.path(), "two.json", &[used(512), used(1024)]);
    let (code, answer) = answer(&[&two, "--baseline", &one, "--max-growth", "1GiB"]);
    let verdict = &answer["devices"][1]["verdicts"][0];
    assert_eq!((code, &verdict["status"]), (3, &json!("unknown")));
    assert_eq!(verdict["unknown_because"], "no_baseline");
    assert_eq!(
        verdict["text"],
        "peak of allocated bytes on device 1: 1.00 KiB; its growth is unknown, because the baseline has no device 1"
    );
    assert_eq!(answer["devices"][0]["verdicts"][0]["status"], "kept");
    // Only the device that both recordings have.
    assert_eq!(text(&[&two, "--baseline", &one, "--device", "0"]).0, 0);
    let (code, out, _) = text(&[&one, "--baseline", &two]);
    assert_eq!(code, 0);
    assert!(out.contains("Only the baseline used device 1."), "{out}");
}

#[test]
fn an_unknown_budget_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("end.json");
    let block = json!({"address": 4096, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": []});
    let segment = json!({"device": 0, "address": 4096, "total_size": 2 << 20, "stream": 0, "segment_type": "small", "blocks": [block]});
    std::fs::write(&file, json!({"segments": [segment], "device_traces": [[]]}).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let (code, out, _) = text(&[file, "--max-peak", "1MiB"]);
    assert_eq!(code, 3);
    let found = "unknown    peak of allocated bytes on device 0: unknown, because no history was recorded; 512 B when the snapshot was taken, --max-peak 1.00 MiB\n";
    assert!(out.contains(found), "{out}");
    assert!(out.contains("Call `torch.cuda.memory._record_memory_history()` before"), "{out}");
    let (code, answer) = answer(&[file, "--max-peak", "511"]);
    assert_eq!((code, &answer["devices"][0]["verdicts"][0]["status"]), (1, &json!("exceeded")));
}

/// A ring buffer with one event that dropped an earlier one.
fn overflowed(folder: &Path, name: &str, bytes: u64) -> String {
    let file = folder.join(name);
    let snapshot = json!({
        "segments": [],
        "device_traces": [[alloc(1 << 20, bytes, 10, "load")]],
        "trace_alloc_overflowed": [true],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": false},
    });
    std::fs::write(&file, snapshot.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_recording_that_lost_its_beginning_is_not_passed() {
    let folder = tempfile::tempdir().unwrap();
    let file = overflowed(folder.path(), "ring.json", 512);
    let (code, out, err) = text(&[&file, "--max-peak", "1MiB", "--no-leaks", "--no-oom"]);
    assert_eq!((code, err.as_str()), (3, ""));
    insta::assert_snapshot!(out.replace(folder.path().to_str().unwrap(), "FOLDER"));
    let (code, answer) = answer(&[&file, "--max-peak", "1MiB"]);
    let verdict = &answer["devices"][0]["verdicts"][0];
    assert_eq!((code, &verdict["status"]), (3, &json!("unknown")));
    assert_eq!(verdict["unknown_because"], "events_dropped");
    // The remaining events show that a budget is exceeded.
    let (code, out, _) = text(&[&file, "--max-peak", "511"]);
    assert!(code == 1 && out.contains("exceeded   peak of allocated bytes"), "{out}");

    let (code, xml, _) = text(&[&file, "--max-peak", "1MiB", "--junit", "-"]);
    assert_eq!(code, 3);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let error = document.descendants().find(|n| n.has_tag_name("error")).unwrap();
    assert!(error.text().unwrap().contains("Record the run again with a larger `max_entries`."), "{xml}");
}

#[test]
fn growth_over_a_baseline_that_lost_its_beginning_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let ring = overflowed(folder.path(), "ring.json", 512);
    let whole = snapshot(folder.path(), "whole.json", &[vec![alloc(1 << 20, 1024, 10, "load")]]);
    let (code, out, _) = text(&[&whole, "--baseline", &ring, "--max-growth", "0"]);
    assert_eq!(code, 3);
    let found =
        "its growth is unknown, because the ring buffer probably dropped the oldest events of the baseline\n";
    assert!(out.contains(found), "{out}");
    assert!(out.contains("  Record the baseline again with a larger `max_entries`.\n"), "{out}");
    // The baseline's peak was at least 512 B, which sets the allowed growth.
    assert_eq!(text(&[&whole, "--baseline", &ring, "--max-growth", "512"]).0, 0);
}

#[test]
fn numbers_that_are_not_exact_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.json");
    let events = [alloc(1 << 20, 3000, 1, "load")];
    std::fs::write(&file, json!({"segments": [], "device_traces": [events]}).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let (_, out, _) = text(&[file, "--max-peak", "1MiB"]);
    assert!(out.contains("device 0: 3.00 KiB (approximate), within --max-peak 1.00 MiB\n"), "{out}");
    assert!(out.contains("The file names no allocator settings; PyTorch's defaults were assumed."), "{out}");
    let (_, answer) = answer(&[file, "--max-peak", "1MiB"]);
    let device = &answer["devices"][0];
    assert_eq!(
        (&device["verdicts"][0]["peak"]["exact"], &device["quality"]["exact"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(
        device["notes"],
        json!(["The file names no allocator settings; PyTorch's defaults were assumed."])
    );
    // The same limitation of the baseline.
    let (_, out, _) = text(&[LEAK, "--baseline", file]);
    assert!(out.contains("above the baseline's 3.00 KiB (approximate)"), "{out}");
    assert!(out.contains("  Baseline: The file names no allocator settings;"), "{out}");
}

#[test]
fn junit_as_another_reader_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.xml");
    let args = [LEAK, "--max-peak", "50MiB", "--max-reserved", "1GiB", "--no-leaks", "--no-oom"];
    let (code, out, err) = text(&[&args[..], &["--junit", file.to_str().unwrap()]].concat());
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.contains("2 budgets exceeded, 2 kept."), "{out}");
    let xml = std::fs::read_to_string(&file).unwrap();
    insta::assert_snapshot!(xml);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suite = document.descendants().find(|n| n.has_tag_name("testsuite")).unwrap();
    assert_eq!(suite.attribute("name"), Some("examples/leak.pickle: device 0"));
    assert_eq!([suite.attribute("tests"), suite.attribute("failures")], [Some("4"), Some("2")]);
    let cases: Vec<_> = suite.children().filter(|n| n.has_tag_name("testcase")).collect();
    let failures: Vec<_> = cases.iter().map(|c| c.children().find(|n| n.has_tag_name("failure"))).collect();
    assert_eq!(
        cases
            .iter()
            .zip(&failures)
            .map(|(c, f)| (c.attribute("name").unwrap(), f.is_some()))
            .collect::<Vec<_>>(),
        [("max-peak", true), ("max-reserved", false), ("no-leaks", true), ("no-oom", false)]
    );
    let failure = failures[0].unwrap();
    let message = failure.attribute("message").unwrap();
    assert_eq!(
        message,
        "peak of allocated bytes on device 0: 59.53 MiB, 9.53 MiB above --max-peak 50.00 MiB"
    );
    assert!(out.contains(message));
    assert!(failure.text().unwrap().contains("workloads.py:92 leak"), "{failure:?}");

    // On standard output it replaces the text.
    let (code, alone, _) = text(&[&args[..], &["--junit", "-"]].concat());
    assert_eq!((code, alone), (1, xml));
}

#[test]
fn an_unknown_budget_is_an_error_in_junit() {
    let folder = tempfile::tempdir().unwrap();
    let one = snapshot(folder.path(), "one.json", &[vec![alloc(1 << 20, 512, 1, "f")]]);
    let two = snapshot(folder.path(), "two.json", &[vec![], vec![alloc(1 << 20, 512, 1, "f")]]);
    let (code, xml, _) = text(&[&two, "--baseline", &one, "--junit", "-"]);
    assert_eq!(code, 3);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let errors: Vec<_> = document.descendants().filter(|n| n.has_tag_name("error")).collect();
    assert_eq!(errors.len(), 2, "{xml}");
    assert!(
        errors[0].attribute("message").unwrap().ends_with("because the baseline has no device 1"),
        "{xml}"
    );
}

/// Names may contain characters that XML does not allow.
#[test]
fn names_from_a_file_are_text_in_junit() {
    let folder = tempfile::tempdir().unwrap();
    let name = "f</failure>]]>&\"'<!-- \u{1b}[31m \u{0} \u{ffff} \u{fffe} \u{202e}";
    let file = snapshot(folder.path(), "evil <&\".json", &[vec![alloc(1 << 20, 512, 1, name)]]);
    let (code, xml, err) = text(&[&file, "--max-peak", "1", "--junit", "-"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suite = document.descendants().find(|n| n.has_tag_name("testsuite")).unwrap();
    assert!(suite.attribute("name").unwrap().ends_with("evil <&\".json: device 0"), "{xml}");
    let failure = document.descendants().find(|n| n.has_tag_name("failure")).unwrap();
    assert!(failure.text().unwrap().contains("train.py:1 f</failure>]]>&\"'<!--"), "{xml}");
    let plain = |c: char| matches!(c, '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{202e}';
    assert!(xml.chars().all(plain), "{xml:?}");
}

/// A closed pipe never changes the exit code.
#[test]
fn a_reader_that_leaves_early_changes_no_verdict() {
    let mut command = vramscope(&["check", OOM, "--max-peak", "1GiB", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(1), ""));
}

#[test]
fn invalid_requests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let unused = snapshot(folder.path(), "unused.json", &[vec![]]);
    for (args, why) in [
        (vec![OOM, "--max-peak", "24X"], "a size is a number of bytes or has a unit, such as 24GiB or 512MB"),
        (vec![OOM, "--max-peak", "-5"], "a size is a number"),
        (vec![OOM, "--max-reserved", "much"], "a size is a number"),
        (vec![OOM, "--baseline", LEAK, "--max-growth", "lots"], "or give a percentage, as 5%"),
        (vec![OOM, "--baseline", LEAK, "--max-growth", "-1%"], "expected a percentage, as 5% or 2.5%"),
        (vec![OOM, "--baseline", LEAK, "--max-growth", "NaN%"], "expected a percentage, as 5% or 2.5%"),
        (vec![OOM, "--baseline", LEAK, "--max-growth", "%"], "expected a percentage, as 5% or 2.5%"),
        (vec![OOM, "--max-growth", "0"], "--baseline <OLD>"),
        (vec![OOM, "--baseline", "examples/none.pickle"], "examples/none.pickle"),
        (vec![OOM, "--baseline", "README.md"], "README.md"),
        (vec!["-", "--baseline", "-"], "only one of FILE and --baseline can be standard input"),
        (vec![OOM, "--max-peak", "1GiB", "--junit", "-", "--json"], "give --junit a file name"),
        (vec![OOM, "--max-peak", "1GiB", "--junit", "examples"], "is a directory"),
        (vec![OOM, "--max-peak", "1GiB", "--junit", "none/memory.xml"], "the directory none does not exist"),
        (vec![OOM, "--max-peak", "1GiB", "--device", "3"], "has no device 3; it has 0"),
        (vec![&unused, "--max-peak", "1GiB"], "nothing was recorded on any device"),
        (vec![&unused, "--max-peak", "1GiB", "--device", "0"], "nothing was recorded on device 0"),
    ] {
        let (code, out, err) = text(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(why), "{args:?}: {err}");
    }
}

/// A log of RMM with forty allocations of 4 MiB, which are freed at the end, and its rows.
fn of_rmm() -> (String, Vec<String>) {
    let row = |action: &str, i: u64| {
        format!("1,15:00:{i:02}.000000,{action},{:#x},{},0x0\n", (1u64 << 40) + (i << 22), 4 << 20)
    };
    let rows: Vec<String> =
        (0..40).map(|i| row("allocate", i)).chain((0..40).map(|i| row("free", i))).collect();
    ("Thread,Time,Action,Pointer,Size,Stream\n".to_owned(), rows)
}

/// A quote in the middle of a table once took all rows behind it, and both budgets were kept.
#[test]
fn a_damaged_row_is_never_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let (header, rows) = of_rmm();
    let write = |name: &str, rows: &[String]| {
        let file = folder.path().join(name);
        std::fs::write(&file, header.clone() + &rows.concat()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let whole = write("whole.csv", &rows);
    let mut quoted = rows.clone();
    quoted[9] = quoted[9].replace("allocate,", "allocate,\"");
    let quoted = write("quoted.csv", &quoted);
    let cut = write("cut.csv", &[&rows[..30], &[rows[30][..20].to_owned()]].concat());
    for (limit, codes) in [
        // Above all rows; below them, where the free of the damaged allocation shows it; below the rows before the cut.
        ("161MiB", [0, 3, 3]),
        ("158MiB", [1, 1, 3]),
        ("100MiB", [1, 1, 1]),
    ] {
        let found = [&whole, &quoted, &cut].map(|file| text(&[file, "--max-peak", limit]).0);
        assert_eq!(found, codes, "{limit}");
    }
    // Budgets that are exceeded come first, also in the exit code.
    assert_eq!(text(&[&quoted, "--max-peak", "100MiB", "--no-oom"]).0, 1);

    let (code, out, err) = text(&[&quoted, "--max-peak", "161MiB"]);
    let at = header.len() + rows[..9].concat().len();
    let damage = format!("the file is damaged at byte {at}: {} bytes cannot be read", rows[9].len() + 1);
    assert!(code == 3 && err.contains(&damage), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].starts_with("The file is damaged at byte "), "{out}");
    let unknown = "peak of allocated bytes on device 0: unknown, because the file is damaged, and events may be missing; 160.00 MiB (approximate) in the recorded events, --max-peak 161.00 MiB";
    assert!(out.contains(unknown), "{out}");
    let (_, answer) = {
        let output = run(&["check", &quoted, "--max-peak", "161MiB", "--json"]);
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    assert_eq!((&answer["status"], &answer["kept"]), (&json!("unknown"), &json!(false)));
    assert_eq!(answer["damage"], json!({"places": 1, "bytes": rows[9].len() + 1, "first_byte": at}));
    assert_eq!(answer["devices"][0]["verdicts"][0]["unknown_because"], "damaged");
    let (_, xml, _) = text(&[&quoted, "--max-peak", "161MiB", "--junit", "-"]);
    let document = roxmltree::Document::parse(&xml).unwrap();
    assert!(document.descendants().any(|node| node.has_tag_name("error")), "{xml}");

    // The report and `info` name it, too.
    let report = String::from_utf8(run(&["report", &quoted]).stdout).unwrap();
    assert!(report.lines().nth(1).unwrap().starts_with("The file is damaged at byte "), "{report}");
    let info = String::from_utf8(run(&["info", &quoted]).stdout).unwrap();
    assert!(info.contains(&format!("  damage      the file is damaged at byte {at}")), "{info}");
    let ends = String::from_utf8(run(&["info", &cut]).stdout).unwrap();
    assert!(ends.contains("  ends        in an incomplete write of 20 bytes"), "{ends}");

    // A fleet has the same answer.
    for (limit, code) in [("161MiB", 3), ("158MiB", 1)] {
        let output = run(&["fleet", &quoted, "--no-cache", "--max-peak", limit]);
        assert_eq!(output.status.code(), Some(code), "{limit}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// What a damaged recording is exported to is as damaged.
#[test]
fn an_export_does_not_mend_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let (header, mut rows) = of_rmm();
    rows[9] = rows[9].replace("allocate", "al!ocate");
    let file = folder.path().join("damaged.csv");
    std::fs::write(&file, header + &rows.concat()).unwrap();
    let file = file.to_str().unwrap();
    for format in ["pickle", "log"] {
        let out = folder.path().join(format);
        let out = out.to_str().unwrap();
        let exported = run(&["export", file, "--format", format, "--output", out]);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        for (limit, code) in [("161MiB", 3), ("158MiB", 1)] {
            assert_eq!(text(&[out, "--max-peak", limit]).0, code, "{format}, {limit}");
        }
    }
}
