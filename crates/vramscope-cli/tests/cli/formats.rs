//! Opens a sample of each format in each command, as a user does.

use crate::run;

/// The exit code of a command that opens a sample, or a part of the reason for which it refuses it.
type Opened = Result<i32, &'static str>;

/// A sample, and what the commands answer.
struct Sample {
    file: &'static str,
    /// The answer of every command, if none opens the sample. `report` opens a log of samples.
    refused: Option<&'static str>,
    /// The value of `format` in `info --json`.
    format: &'static str,
    /// `check --no-oom --no-leaks`: 1 if the recording has a leak or ran out of memory, 3 if it cannot show it.
    check: Opened,
    /// `replay`: 1 if the recorded run is out of memory on its device.
    replay: Opened,
}

const fn sample(file: &'static str, format: &'static str, check: i32, replay: Opened) -> Sample {
    Sample { file, refused: None, format, check: Ok(check), replay }
}

const fn refused(file: &'static str, why: &'static str) -> Sample {
    Sample { file, refused: Some(why), format: "", check: Err(why), replay: Err(why) }
}

const UNKNOWN_RULES: Opened = Err("whose rules are unknown here");
const SAMPLES_ONLY: &str = "a log of samples, not a recording";
const NO_DEVICE: &str = "nothing was recorded on any device";

const SAMPLES: [Sample; 36] = [
    // PyTorch's snapshots.
    sample("segments", "pickle", 3, Ok(0)),
    sample("protocol2", "pickle", 0, Ok(0)),
    sample("protocol3", "pickle", 0, Ok(0)),
    sample("protocol4", "pickle", 0, Ok(0)),
    sample("protocol5", "pickle", 0, Ok(0)),
    sample("gzip", "pickle", 0, Ok(0)),
    sample("json", "json", 0, Ok(0)),
    sample("everything", "pickle", 1, Ok(1)),
    sample("everything.json", "json", 1, Ok(1)),
    sample("pinned", "pickle", 0, Ok(0)),
    sample("rocm", "pickle", 0, Ok(0)),
    sample("xpu", "pickle", 0, Ok(0)),
    sample("npu", "pickle", 0, Ok(0)),
    // Our own logs.
    sample("log", "log", 1, Ok(1)),
    sample("log2", "log", 1, Ok(1)),
    sample("log3", "log", 1, Ok(1)),
    sample("log4", "log", 1, Ok(1)),
    sample("log5", "log", 1, Ok(1)),
    sample("log-cut", "log", 1, Ok(1)),
    sample("log2-cut", "log", 1, Ok(1)),
    sample("log3-cut", "log", 1, Ok(1)),
    sample("log4-cut", "log", 1, Ok(1)),
    sample("log5-cut", "log", 1, Ok(1)),
    Sample { check: Err(NO_DEVICE), ..sample("log4-host", "log", 0, Ok(0)) },
    // Other tools.
    sample("rmm", "rmm", 3, UNKNOWN_RULES),
    sample("memscope", "msmemscope", 3, UNKNOWN_RULES),
    sample("torch-profiler", "torch_profiler", 3, UNKNOWN_RULES),
    sample("nsys", "nsys", 3, UNKNOWN_RULES),
    sample("paddle", "pickle", 3, UNKNOWN_RULES),
    sample("mlx", "pickle", 3, UNKNOWN_RULES),
    sample("jax", "jax", 3, UNKNOWN_RULES),
    // Not recordings.
    refused("samples-csv", SAMPLES_ONLY),
    refused("samples-json", SAMPLES_ONLY),
    refused("samples-jsonl", SAMPLES_ONLY),
    refused("samples-results", SAMPLES_ONLY),
    refused("below-the-mark", "an opcode needs more values than the stack has"),
];

/// Runs a command on a sample. Returns its standard output, or all of its output if it refuses the sample.
fn opened(command: &[&str], sample: &str) -> (Opened, String) {
    let file = format!("fuzz/corpus/read/{sample}");
    let output = run(&[&command[..1], &[file.as_str()], &command[1..]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(2) => (Err(""), format!("{}{errors}", String::from_utf8_lossy(&output.stdout))),
        Some(code) => (Ok(code), String::from_utf8_lossy(&output.stdout).into_owned()),
        None => panic!("{command:?} {sample}: {errors}"),
    }
}

/// The text without line breaks.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks that a command opens each sample with the given exit code, or refuses it with the given reason.
fn each(command: &[&str], expected: impl Fn(&Sample) -> Opened, holds: impl Fn(&Sample, &str) -> bool) {
    let mut wrong = Vec::new();
    for sample in &SAMPLES {
        let (answer, text) = opened(command, sample.file);
        let expected = expected(sample);
        let is_right = match (expected, answer) {
            (Ok(code), Ok(exit)) => code == exit && holds(sample, &text),
            (Err(why), Err(_)) => joined(&text).contains(why),
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{}: {answer:?} instead of {expected:?}: {text}", sample.file));
        }
    }
    assert!(wrong.is_empty(), "{command:?}\n{}", wrong.join("\n"));
}

/// Success, unless the sample is not a recording.
fn of_recordings(sample: &Sample) -> Opened {
    sample.refused.map_or(Ok(0), Err)
}

#[test]
fn every_sample_is_listed() {
    let folder = crate::root().join("fuzz/corpus/read");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    let mut listed = SAMPLES.map(|sample| std::ffi::OsString::from(sample.file)).to_vec();
    listed.sort();
    assert_eq!(files, listed);
}

#[test]
fn info_of_every_sample() {
    each(&["info", "--json"], of_recordings, |sample, text| {
        let facts: serde_json::Value = serde_json::from_str(text).unwrap();
        facts["format"] == sample.format
    });
}

#[test]
fn the_report_of_every_sample() {
    let expected = |sample: &Sample| match sample.refused {
        Some(SAMPLES_ONLY) => Ok(0),
        refused => refused.map_or(Ok(0), Err),
    };
    each(&["report"], expected, |_, text| !text.is_empty());
}

#[test]
fn the_page_of_every_sample() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    each(&["view", "--html", page.to_str().unwrap()], of_recordings, |_, _| {
        let is_page = std::fs::read(&page).unwrap().starts_with(b"<!doctype html>");
        std::fs::remove_file(&page).unwrap();
        is_page
    });
}

#[test]
fn the_fleet_of_every_sample() {
    let expected = |sample: &Sample| match sample.check {
        Err(why) => Err(why),
        Ok(_) => Ok(0),
    };
    each(&["fleet"], expected, |_, text| !text.is_empty());
}

#[test]
fn the_check_of_every_sample() {
    each(&["check", "--no-leaks", "--no-oom"], |sample| sample.check, |_, text| !text.is_empty());
}

#[test]
fn exports_of_every_sample() {
    for format in ["chrome", "pprof", "folded", "csv", "parquet", "pickle"] {
        each(&["export", "--format", format], of_recordings, |_, _| true);
    }
    let expected = |sample: &Sample| match sample.file {
        "rocm" | "xpu" | "npu" | "memscope" => Err("a log does not name the kind of its devices"),
        _ => of_recordings(sample),
    };
    each(&["export", "--format", "log"], expected, |_, _| true);
    // Nothing is live in a log of a host.
    let expected = |sample: &Sample| match sample.file {
        "log4-host" => Err("there is nothing to draw"),
        _ => of_recordings(sample),
    };
    each(&["export", "--format", "flamegraph"], expected, |_, text| text.contains("<svg"));
}

/// The rules of the recorded device and settings reproduce these samples.
const EXACT: [&str; 9] =
    ["protocol2", "protocol3", "protocol4", "protocol5", "gzip", "pinned", "rocm", "xpu", "npu"];

#[test]
fn the_replay_of_every_sample() {
    each(
        &["replay"],
        |sample| sample.replay,
        |sample, text| {
            !EXACT.contains(&sample.file) || joined(text).contains("the replay reproduces every address")
        },
    );
}

#[test]
fn the_plan_of_every_sample() {
    each(&["plan"], |sample| sample.replay.map(|_| 0), |_, text| !text.is_empty());
}

#[test]
fn the_replay_of_pinned_memory() {
    let (answer, text) = opened(&["replay", "--device=-1"], "pinned");
    assert_eq!(answer, Ok(0));
    assert!(text.contains("rules of PyTorch (pinned host memory)"), "{text}");
    assert!(text.contains("peaks at 12.00 KiB reserved"), "{text}");
}

#[test]
fn budgets_about_unknown_numbers_are_not_kept() {
    // A request failed, but the log does not have the device's free memory.
    let (answer, text) = opened(&["check", "--no-oom"], "rmm");
    assert_eq!(answer, Ok(3));
    assert!(text.contains("unknown, because failed requests are not read from this format"), "{text}");
    for sample in ["rmm", "torch-profiler", "jax"] {
        let (answer, text) = opened(&["check", "--max-reserved", "1GiB"], sample);
        assert_eq!(answer, Ok(3), "{sample}");
        assert!(joined(&text).contains("unknown, because"), "{text}");
    }
    // The driver's allocations, and a memory pool.
    for sample in ["memscope", "nsys"] {
        let (answer, text) = opened(&["check", "--max-reserved", "1GiB", "--device", "0"], sample);
        assert_eq!(answer, Ok(0), "{sample}: {text}");
    }
}
