//! `vramscope phantom`: programs on phantom GPUs. A stand-in for PyTorch writes one of the project's recordings; `./test --torch` tests
//! real PyTorch on phantom GPUs.

mod ranks;
mod verdicts;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{root, run, vramscope};

/// The folder of the stand-in for PyTorch.
fn stand_in() -> String {
    format!("{}/tests/cli/phantom", env!("CARGO_MANIFEST_DIR"))
}

/// `vramscope phantom run` with `options` for a Python program that imports torch and writes `snapshot`.
fn python(options: &[&str], snapshot: &str, program: &str) -> Command {
    let mut command = vramscope(&[&["phantom", "run"], options, &["--", "python3", "-c", program]].concat());
    command.env("PYTHONPATH", stand_in()).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("SNAPSHOT", root().join("examples").join(snapshot));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn cards_are_listed_by_their_memory() {
    let cards: Vec<Value> = serde_json::from_slice(&run(&["phantom", "list", "--json"]).stdout).unwrap();
    assert!(cards.len() >= 40, "{}", cards.len());
    let sizes: Vec<u64> = cards.iter().map(|card| card["total_bytes"].as_u64().unwrap()).collect();
    assert!(sizes.is_sorted());
    let listed = text(&run(&["phantom", "list"]).stdout);
    assert!(listed.contains("NVIDIA H100 80GB HBM3"), "{listed}");
}

#[test]
fn a_program_that_uses_no_gpu_is_reported() {
    let output = run(&["phantom", "run", "--", "true"]);
    assert_eq!((code(&output), text(&output.stderr)), (0, String::new()));
    assert_eq!(text(&output.stdout), "\nThe program did not use a GPU.\n");
}

#[test]
fn accesses_are_in_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("copies.vramscope");
    let program = "import ctypes\ncuda = ctypes.CDLL(None)\naddress = ctypes.c_void_p()\n\
        assert cuda.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(4096)) == 0\n\
        assert cuda.cudaMemcpy(address, b'8 bytes.', ctypes.c_size_t(8), 1) == 0";
    let run_with = |options: &[&str]| {
        vramscope(&[&["phantom", "run", "--once"], options, &["--", "python3", "-c", program]].concat())
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let output = run_with(&["--record", "copies.vramscope"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout);
    assert!(said.ends_with(&format!("\nRecording: {}\n", log.display())), "{said}");
    let info = text(&run(&["info", &log.display().to_string()]).stdout);
    assert!(info.contains("\n  accesses    1 launch, 0 with unknown parameters\n"), "{info}");
    // The name of the log, if none is given.
    assert_eq!(code(&run_with(&["--accesses"])), 0);
    assert!(folder.path().join("run.vramscope").exists());
    let output = run_with(&["--accesses", "--record", "run.pickle"]);
    assert_eq!(code(&output), 2);
    assert_eq!(
        text(&output.stderr),
        "error: run.pickle: accesses are in logs: name one, as --record run.vramscope\n"
    );
}

#[test]
fn a_program_that_fails_is_trouble() {
    let output = run(&["phantom", "run", "--", "false"]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).starts_with("error: the program ended with exit code 1"), "{output:?}");

    let output = run(&["phantom", "run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).starts_with("error: the program was ended by signal 9"), "{output:?}");

    let output = run(&["phantom", "run", "--", "/there/is/no/such/program"]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).starts_with("error: /there/is/no/such/program: No such file"), "{output:?}");
}

#[test]
fn a_program_gets_sigterm_after_the_time_limit_of_its_steps() {
    let output = run(&["phantom", "run", "--steps-timeout", "0.3", "--json", "--", "sleep", "600"]);
    assert_eq!(code(&output), 3, "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["timed_out"], &answer["signal"]), (&true.into(), &15.into()));
    // The rest of the program may need more.
    assert_eq!((&answer["fits"], &answer["verdict"]), (&false.into(), &"unknown".into()));
    assert_eq!(answer["certainty"]["kind"], "at_least");
    assert_eq!(answer["certainty"]["basis"][0]["text"], "the program was ended by --steps-timeout");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let output =
        vramscope(&["phantom", "run", "--", "true"]).env("TMPDIR", "/there/is/none").output().unwrap();
    assert_eq!(code(&output), 2);
    assert_eq!(
        text(&output.stderr),
        "error: cannot create a folder for the phantom's files in /there/is/none: entity not found; set TMPDIR to a writable folder\n"
    );
}

#[test]
fn a_program_that_fits_is_reported_with_the_smallest_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.pickle");
    let options = ["--gpu", "l4", "--record", out.to_str().unwrap()];
    let output = python(&options, "leak.pickle", "import torch").output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let said = text(&output.stdout).replace(folder.path().to_str().unwrap(), "FOLDER");
    insta::assert_snapshot!("fits", said);
    assert_eq!(fs::read(&out).unwrap(), fs::read(root().join("examples/leak.pickle")).unwrap());
}

#[test]
fn a_program_that_does_not_fit_is_reported_with_changes_that_help() {
    let output = python(&["--gpu", "l4", "--once"], "oom.pickle", "import torch").output().unwrap();
    assert_eq!(code(&output), 1, "{output:?}");
    insta::assert_snapshot!("does-not-fit", text(&output.stdout));

    let output = python(&["--once", "--json"], "oom.pickle", "import torch").output().unwrap();
    assert_eq!(code(&output), 1, "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["fits"], false);
    assert_eq!(answer["processes"][0]["devices"][0]["peak_reserved_bytes"], 2000);
    assert!(
        text(&output.stderr).contains("recording python"),
        "what the program prints is on stderr: {output:?}"
    );
}

#[test]
fn all_cards_are_compared() {
    let output = python(&["--sweep-gpus", "--json"], "leak.pickle", "import torch").output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let listed: Vec<Value> = serde_json::from_slice(&run(&["phantom", "list", "--json"]).stdout).unwrap();
    assert_eq!(answer["cards"].as_array().unwrap().len(), listed.len());
}

/// A program that has its own `sitecustomize`, fails, or gets SIGTERM is recorded as well.
#[test]
fn every_end_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("sitecustomize.py"), "print('its own')").unwrap();
    let path = format!("{}:{}", folder.path().display(), stand_in());
    for (program, expected) in [
        ("import torch", 0),
        ("import torch; raise ValueError", 2),
        ("import torch, time; time.sleep(600)", 3),
        ("import torch, os, signal; os.kill(os.getpid(), signal.SIGTERM)", 2),
    ] {
        let mut command = python(&["--json", "--steps-timeout", "3"], "leak.pickle", program);
        let output = command.env("PYTHONPATH", &path).output().unwrap();
        assert_eq!(code(&output), expected, "{program}: {output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["processes"].as_array().unwrap().len(), 1, "{program}: {output:?}");
        assert!(text(&output.stderr).contains("its own"), "{program}: {output:?}");
    }
}

/// Each of two processes has a separate file.
#[test]
fn every_rank_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.pickle");
    let program = "import subprocess, sys, os\n\
                   for rank in '01': subprocess.run([sys.executable, '-c', 'import torch'], env=dict(os.environ, RANK=rank))";
    let output =
        python(&["--gpus", "2", "--record", out.to_str().unwrap()], "leak.pickle", program).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(
        files,
        ["run-rank0.pickle", "run-rank1.pickle"].map(|name| Path::new(name).as_os_str().to_owned())
    );
}

/// Values that a kernel would have computed are counted, with the line that reads them; values that the program copied are not.
#[test]
fn lines_that_read_values_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = "import ctypes
cuda = ctypes.CDLL(None)
at, value = ctypes.c_void_p(), ctypes.c_longlong(7)
cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(8))
cuda.cudaMemcpy(at, ctypes.byref(value), ctypes.c_size_t(8), 1)
cuda.cudaMemcpy(ctypes.byref(value), at, ctypes.c_size_t(8), 2)
assert value.value == 7
cuda.cudaLaunchKernel()
for _ in range(3):
    cuda.cudaMemcpy(ctypes.byref(value), at, ctypes.c_size_t(8), 2)
assert value.value == 0
";
    fs::write(folder.path().join("program.py"), program).unwrap();
    let mut command = vramscope(&["phantom", "run", "--json", "--once", "--", "python3", "program.py"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    // The program may behave differently with other values.
    assert_eq!(code(&output), 3, "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["values_read"], &answer["results_read"]), (&Value::from(3), &Value::from(0)));
    assert_eq!(
        answer["read_at"],
        serde_json::json!([{"line": "program.py:10", "reads": 3, "computed_at": null, "operator": null}])
    );
}

/// A program that records its own history does not cut the command's recording.
#[test]
fn a_history_of_the_programs_own_changes_nothing() {
    let program = "import torch\n\
                   memory = torch.cuda.memory\n\
                   assert memory._snapshot()['device_traces'] == [[]]\n\
                   memory._record_memory_history(enabled=None)";
    let output = python(&["--json"], "leak.pickle", program).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(text(&output.stderr).matches("recording").count(), 1, "{output:?}");
}

/// With an allocator without a history, such as cudaMallocAsync, the program runs, and the GPU's counts give the verdict.
#[test]
fn what_is_not_recorded_is_counted() {
    let program = "import ctypes, torch
cuda = ctypes.CDLL(None)
at = ctypes.c_void_p()
cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(10 << 30))
";
    for (gpu, expected) in [("h100-80gb", 0), ("rtx3080", 1)] {
        let mut command = python(&["--json", "--gpu", gpu], "leak.pickle", program);
        let output = command.env("ALLOCATOR", "cudaMallocAsync").output().unwrap();
        assert_eq!(code(&output), expected, "{output:?}");
        assert!(text(&output.stderr).contains("nothing is recorded"), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["processes"].as_array().unwrap().len(), 0);
        let smallest = answer["smallest_gpu"]["total_bytes"].as_u64().unwrap();
        assert!((10 << 30..12 << 30).contains(&smallest), "{answer}");
    }
}
