//! `vramscope fit` with a stand-in for PyTorch, whose recording does not depend on the program; `./test --torch` tests the changes with
//! real PyTorch.

use std::process::{Command, Output};

use insta_cmd::assert_cmd_snapshot;
use serde_json::Value;

use crate::{root, vramscope};

/// `vramscope fit` with `options` for a Python program that imports torch and writes `snapshot`.
fn fit(options: &[&str], snapshot: &str, program: &[&str]) -> Output {
    let mut command: Command = vramscope(&[&["fit"], options, &["--", "python3", "-c"], program].concat());
    command.env("PYTHONPATH", format!("{}/tests/cli/phantom", env!("CARGO_MANIFEST_DIR")));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("SNAPSHOT", root().join("examples").join(snapshot));
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["fit", "--help"]));
}

#[test]
fn wrong_arguments_are_explained() {
    for (options, expected) in [
        (
            &["--vary", "batch=1..256"][..],
            "error: --vary: neither the program's arguments nor --env contain {batch}; write it where the number belongs, as `--batch '{batch}'`\n",
        ),
        (&["--budget", "2TiB"], "error: the budget of 2.00 TiB is above the GPU's memory of 79.18 GiB\n"),
        (&["--budget", "1MiB"], "error: 1048576 bytes have no room for a context of"),
        (&["--vary", "batch=9..2"], "9 is above 2: give the smaller number first"),
        (&["--vary", "batch"], "`batch` is not NAME=LOW..HIGH, as batch=1..256"),
        (&["--env", "BATCH"], "`BATCH` is not KEY=VALUE"),
        (&["--env", "PYTHONPATH=/x"], "the phantom GPU sets PYTHONPATH: set it before the command"),
    ] {
        let output = fit(options, "leak.pickle", &["import torch"]);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(text(&output.stderr).contains(expected), "{options:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_program_that_fails_is_an_error_with_its_last_exception() {
    let output = fit(&[], "leak.pickle", &["import torch; raise ValueError('no data')"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "run 1: unchanged\n  run 1 failed: ValueError: no data\nerror: the unchanged program failed: ValueError: no data\n"
    );
    assert!(output.stdout.is_empty());

    let output = vramscope(&["fit", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).ends_with("error: the program did not use a GPU\n"), "{output:?}");
}

/// `vramscope fit` for a program without PyTorch that allocates a number of MiB, with contexts of 100 MiB.
fn mib(options: &[&str], number: &str) -> Output {
    let program = format!(
        "import ctypes, sys
number = {number}
if ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(number << 20)):
    sys.exit('out of memory')"
    );
    let fixed = ["fit", "--gpu", "rtx4060", "--context", "100MiB"];
    let mut command = vramscope(&[&fixed, options, &["--", "python3", "-c", &program]].concat());
    command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
}

#[test]
fn the_largest_number_that_fits_is_found() {
    let output = mib(&["--budget", "1100MiB", "--vary", "batch=1..40"], "100 * {batch}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    insta::assert_snapshot!("largest", text(&output.stdout));

    // The wanted number fits; the lowest shows that the program uses it.
    let output = mib(&["--json", "--vary", "batch=1..40"], "100 * {batch}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let vary = &answer["vary"];
    assert_eq!(
        (&vary["largest"], &vary["ignored"], &vary["grows"]),
        (&40.into(), &false.into(), &true.into())
    );
    assert_eq!(vary["points"].as_array().unwrap().len(), 2);
    assert_eq!(vary["points"][1]["run"]["peak_device_bytes"], 4100_u64 << 20);
}

#[test]
fn a_number_that_contradicts_the_search_is_reported() {
    let ignored = mib(&["--budget", "1GiB", "--vary", "batch=1..64"], "2000 + 0 * {batch}");
    assert_eq!(ignored.status.code(), Some(1), "{ignored:?}");
    assert!(
        text(&ignored.stdout).contains("The program ignores batch: its peaks are the same"),
        "{ignored:?}"
    );
    // The wanted and the lowest number are enough, and the wanted one again.
    assert!(!text(&ignored.stderr).contains("run 4"), "{ignored:?}");

    let shrinks = mib(&["--budget", "1GiB", "--vary", "parts=1..8"], "2000 + 1000 // {parts}");
    assert_eq!(shrinks.status.code(), Some(1), "{shrinks:?}");
    assert!(
        text(&shrinks.stdout).contains("The memory does not grow with parts: compare 1 and 8."),
        "{shrinks:?}"
    );
}

#[test]
fn a_program_that_is_not_deterministic_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let counted = folder.path().join("runs");
    // The second run needs 100 MiB more.
    let number =
        format!("2000 + 100 * open('{0}', 'a').tell(); open('{0}', 'a').write('x')", counted.display());
    let output = mib(&["--budget", "1GiB"], &number);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = "The program is not deterministic: a second unchanged run needs 2.15 GiB.";
    assert!(text(&output.stdout).contains(expected), "{output:?}");
    // A program that fits runs once.
    let output = mib(&["--json"], "100");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["repeat"], &answer["deterministic"]), (&Value::Null, &Value::Null));
}

#[test]
fn the_memory_of_a_forked_process_counts() {
    let output = mib(
        &["--json", "--budget", "1GiB"],
        "2000 if (os := __import__('os')).fork() == 0 else os.wait() and 1",
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = answer["baseline"]["peak_device_bytes"].as_u64().unwrap();
    // At least the child's memory and its context.
    assert!(peak >= 2100 << 20, "{answer}");
}

#[test]
fn fit_keeps_the_recording_of_each_change() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let options = ["--json", "--recordings", kept.to_str().unwrap()];
    let refused = fit(&options, "leak.pickle", &["import torch"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("--recordings: the directory"), "{refused:?}");
    std::fs::create_dir(&kept).unwrap();
    let output = fit(
        &options,
        "leak.pickle",
        &["import torch, ctypes
ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 20))"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = kept.join("01-unchanged.pickle");
    assert_eq!(answer["baseline"]["recordings"][0], file.to_str().unwrap());
    assert!(vramscope(&["report", file.to_str().unwrap()]).output().unwrap().status.code() != Some(2));
}

#[test]
fn a_budget_of_a_program_that_fits_is_left() {
    let output = mib(&["--json"], "1000");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["fits"], &answer["changes"]), (&true.into(), &Value::Array(Vec::new())));

    let output = mib(&["--budget", "1000MiB"], "1000");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    insta::assert_snapshot!("nothing-found", text(&output.stdout));
}
