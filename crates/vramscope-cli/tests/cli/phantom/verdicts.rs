//! Verdicts: programs that depend on the GPU's memory, other compute capabilities, ranges of context sizes, processes without a
//! recording.

use std::process::Command;

use serde_json::Value;

use super::{code, python, text};
use crate::{run, vramscope};

/// `vramscope phantom run` with `options` for a Python program that can call CUDA as `cuda`, and allocate with `take(mib)`.
fn program(options: &[&str], program: &str) -> Command {
    vramscope(&[&["phantom", "run"], options, &["--", "python3", "-c", &program_text(program)]].concat())
}

fn program_text(program: &str) -> String {
    format!(
        "import ctypes, os, sys
cuda = ctypes.CDLL(None)
def take(mib):
    if cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(int(mib * 2**20))):
        sys.exit('out of memory')
def free_mib():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    return free.value / 2**20
def major():
    value = ctypes.c_int()
    cuda.cudaDeviceGetAttribute(ctypes.byref(value), 75, 0)
    return value.value
{program}"
    )
}

/// The JSON of `--json`; the command must exit with `expected`.
fn answer(command: &mut Command, expected: i32) -> Value {
    let output = command.output().unwrap();
    assert_eq!(code(&output), expected, "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn card<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["cards"].as_array().unwrap().iter().find(|card| card["name"] == name).unwrap()
}

/// Weights of 17 GiB, and a cache of nine tenths of the remaining memory.
const CACHE: &str = "take(17 * 1024)\ntake(0.9 * free_mib())";

#[test]
fn a_program_that_sizes_itself_by_the_card_runs_on_candidates() {
    // On the first GPU it runs out of memory before the query.
    for (gpu, expected) in [("rtx4060", 1), ("h100-80gb", 0)] {
        let answer = answer(&mut program(&["--json", "--gpu", gpu], CACHE), expected);
        let smallest = &answer["smallest_gpu"];
        assert_eq!(
            (&smallest["name"], &smallest["basis"]),
            (&"rtx4000-sff-ada".into(), &"run".into()),
            "{answer}"
        );
        assert_eq!(answer["asked_memory_at"][0]["line"], "<string>:8", "{answer}");
        assert_eq!(answer["needed_bytes"], Value::Null);
    }
    let output = program(&["--gpu", "h100-80gb"], CACHE).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("The program queried the total or free memory of the GPU (<string>:8)"), "{said}");
    assert!(said.contains("Therefore it ran once per candidate GPU: "), "{said}");

    let output = program(&["--gpu", "h100-80gb", "--once"], CACHE).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("Results for other GPUs are unknown") && !said.contains("smallest"), "{said}");
}

#[test]
fn a_sweep_of_a_program_that_sizes_itself_is_found_by_halving() {
    let answer = answer(&mut program(&["--json", "--gpu", "l4", "--sweep-gpus"], CACHE), 0);
    for (name, fits) in [("rtx4080", false), ("rtx3050-6gb", false), ("a100-40gb", true), ("gb200", true)] {
        assert_eq!(card(&answer, name)["fits"], fits, "{name}");
    }
    let ran = answer["cards"].as_array().unwrap().iter().filter(|card| card["basis"] == "run").count();
    assert!((2..12).contains(&ran), "{ran} runs");
}

/// Allocates more at 9.0 than at other compute capabilities, like cuBLAS workspaces.
#[test]
fn each_compute_capability_has_a_run_of_its_own() {
    let more_at_nine = "take(100 * 1024 if major() == 9 else 30 * 1024)";
    let swept = |gpu, expected| {
        answer(&mut program(&["--json", "--sweep-gpus", "--gpu", gpu], more_at_nine), expected)
    };
    // Starting with either kind of GPU.
    for (gpu, expected) in [("rtx4090", 1), ("h100-80gb", 1), ("a100-80gb", 0)] {
        let answer = swept(gpu, expected);
        for (name, fits) in [("h100-80gb", false), ("h200", true), ("a100-80gb", true), ("a100-40gb", true)] {
            assert_eq!(card(&answer, name)["fits"], fits, "{gpu}, {name}");
        }
        assert_eq!((&answer["smallest_gpu"]["name"], &answer["gpu"]), (&"rtx5090".into(), &gpu.into()));
    }
    // Out of memory at 9.0; the smallest GPU has another compute capability, so the program runs there again.
    let answer = answer(&mut program(&["--json", "--gpu", "h100-80gb"], more_at_nine), 1);
    assert_eq!(answer["smallest_gpu"]["basis"], "replay", "{answer}");
}

#[test]
fn a_sweep_names_the_smallest_gpu_and_has_the_exit_code_of_the_requested_one() {
    for (gpu, expected) in [("rtx3080", 1), ("rtx3090", 0)] {
        let output = program(&["--gpu", gpu, "--sweep-gpus"], "take(12 * 1024)").output().unwrap();
        assert_eq!(code(&output), expected, "{output:?}");
        let said = text(&output.stdout);
        let does = if expected == 0 { "fits" } else { "does not fit" };
        assert!(said.contains(&format!("The program {does} on {gpu}")), "{said}");
        assert!(said.contains("The smallest listed GPU that fits: "), "{said}");
    }
}

#[test]
fn a_program_that_fits_only_beside_the_smallest_context_fits_barely() {
    // A context of a T4 takes 80 to 238 MiB.
    for (mib, verdict, expected) in [(3800, "fits", 0), (3900, "fits barely", 1), (4020, "does not fit", 1)] {
        let options = ["--json", "--once", "--gpu", "t4", "--memory", "4GiB"];
        let answer = answer(&mut program(&options, &format!("take({mib})")), expected);
        assert_eq!(answer["verdict"], verdict);
        assert_eq!(answer["fits"], expected == 0);
        assert_eq!(
            (&answer["context_bytes"], &answer["context_high_bytes"]),
            (&(80 << 20).into(), &(238 << 20).into())
        );
    }
    let output = program(&["--once", "--gpu", "t4", "--memory", "4GiB"], "take(3900)").output().unwrap();
    assert!(
        text(&output.stdout).contains(": a CUDA context takes 83886080 to 249561088 bytes"),
        "{output:?}"
    );
}

/// Without a recording, PyTorch's bytes are not reported as outside PyTorch's allocator.
#[test]
fn bytes_of_a_process_without_a_recording_are_not_called_outside() {
    let take = program_text("take(1024)");
    let killed = python(&[], "leak.pickle", &format!("import torch\n{take}\nos.kill(os.getpid(), 9)"))
        .output()
        .unwrap();
    let isolated = vramscope(&["phantom", "run", "--", "python3", "-I", "-c", &take]).output().unwrap();
    for (output, expected, reason) in [
        (killed, 2, "killed by signal 9 before the numbers could be written"),
        (isolated, 0, "the interpreter was started with -I (isolated), which prevents recording"),
    ] {
        assert_eq!(code(&output), expected, "{output:?}");
        let said = text(&output.stdout);
        assert!(said.contains(&format!("numbers of 1 process are unknown: {reason}")), "{said}");
        assert!(
            said.contains("1.00 GiB  of all uses together: counted")
                && !said.contains("outside PyTorch's allocator"),
            "{said}"
        );
    }
}

/// The peak may be among the dropped events, so the verdict does not use the rest.
#[test]
fn dropped_events_leave_only_the_counts_of_the_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.pickle");
    let out = out.to_str().unwrap();
    let said = |entries: &str| {
        let program = format!("import torch\n{}", program_text("take(1024)"));
        let options = ["--once", "--max-entries", entries, "--force", "--record", out];
        let output = python(&options, "leak.pickle", &program).output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        let report = run(&["report", out]);
        (text(&output.stdout), text(&report.stdout))
    };
    let (verdict, report) = said("10");
    let reason =
        "numbers of 1 process are unknown: older events were dropped (--max-entries). Only the GPU's";
    assert!(verdict.contains(reason), "{verdict}");
    assert!(verdict.contains("1.00 GiB  of all uses together: counted"), "{verdict}");
    assert!(report.contains("dropped the oldest events"), "{report}");

    let (verdict, report) = said("1000000");
    assert!(!verdict.contains("unknown") && verdict.contains("PyTorch's peak: exact"), "{verdict}");
    assert!(!report.contains("dropped the oldest events"), "{report}");
}

/// A program without PyTorch reads a value that no kernel computed, and allocates as many MiB, times 10, plus 100.
const VALUE: &str = "at, value = ctypes.c_void_p(), ctypes.c_longlong(7)
cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(8))
cuda.cudaMemcpy(ctypes.byref(value), at, ctypes.c_size_t(8), 2)
take(100 + 10 * SCALE * value.value)";

#[test]
fn a_peak_is_exact_if_the_extremes_agree_and_else_a_range() {
    let certainty = |scale: &str, options: &[&str], expected| {
        let text = VALUE.replace("SCALE", scale);
        let answer = answer(&mut program(&[&["--json", "--gpu", "t4"], options].concat(), &text), expected);
        (answer["certainty"].clone(), answer["verdict"].clone())
    };
    let mib = |mib: u64| Value::from(mib << 20);
    // The first allocation takes 2 MiB.
    let (exact, _) = certainty("0", &[], 0);
    assert_eq!((&exact["kind"], &exact["high_bytes"]), (&"exact".into(), &mib(102)), "{exact}");
    assert_eq!(
        (&exact["basis"][0]["about"], &exact["basis"][0]["effect"]),
        (&"values".into(), &"none".into())
    );
    // Random values are 1 to 100.
    let (range, verdict) = certainty("1", &[], 0);
    assert_eq!(
        (&range["kind"], &range["low_bytes"], &verdict),
        (&"between".into(), &mib(102), &"fits".into())
    );
    let high = range["high_bytes"].as_u64().unwrap() >> 20;
    assert!((112..=1102).contains(&high), "{range}");
    // Fitting needs the upper end.
    for (memory, expected, code) in [(high + 100, "fits", 0), (high + 99, "fits barely", 1)] {
        let memory = format!("{memory}MiB");
        let (_, verdict) = certainty("1", &["--memory", &memory, "--context", "100MiB"], code);
        assert_eq!(verdict, expected, "{range}");
    }
    // One run does not show the extremes.
    let (open, verdict) = certainty("1", &["--once"], 3);
    assert_eq!(
        (&open["kind"], &open["high_bytes"], &verdict),
        (&"at_least".into(), &Value::Null, &"unknown".into())
    );
    let (values, _) = certainty("1", &["--values", "random=3"], 0);
    assert_eq!((&values["kind"], &values["low_bytes"]), (&"between".into(), &mib(102)));
}

/// Work is done at once, or when the program waits for it: for the event, or for another one that waits for it.
#[test]
fn a_late_gpu_has_done_its_work_only_when_the_program_waits() {
    let text = "byref, p = ctypes.byref, ctypes.c_void_p
streams, events = [p(), p()], [p(), p()]
for stream, event in zip(streams, events):
    assert cuda.cudaStreamCreateWithFlags(byref(stream), 1) == 0
    assert cuda.cudaEventCreate(byref(event)) == 0
at = p()
cuda.cudaMalloc(byref(at), ctypes.c_size_t(8))
cuda.cudaMemsetAsync(at, 0, ctypes.c_size_t(8), streams[0])
cuda.cudaEventRecord(events[0], streams[0])
cuda.cudaStreamWaitEvent(streams[1], events[0], 0)
cuda.cudaEventRecord(events[1], streams[1])
before = [cuda.cudaEventQuery(event) for event in events]
cuda.cudaEventSynchronize(events[1])
after = [cuda.cudaEventQuery(event) for event in events]
assert (before, after) == EXPECTED, (before, after)";
    // cudaErrorNotReady.
    for (options, expected) in [
        (&[][..], "([0, 0], [0, 0])"),
        (&["--gpu-speed", "instant"], "([0, 0], [0, 0])"),
        (&["--gpu-speed", "late"], "([600, 600], [0, 0])"),
    ] {
        let output = program(options, &text.replace("EXPECTED", expected)).output().unwrap();
        assert_eq!(code(&output), 0, "{options:?}: {output:?}");
    }
}
