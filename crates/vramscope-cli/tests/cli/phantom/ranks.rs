//! Several processes, some of which fail.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{code, python, text};
use crate::{root, run};

/// The JSON of `vramscope phantom run --json`, which must exit with `expected`.
fn answer(command: &mut Command, expected: i32) -> Value {
    let output = command.output().unwrap();
    assert_eq!(code(&output), expected, "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The ranks of the recordings.
fn ranks(answer: &Value) -> Vec<Option<u64>> {
    answer["processes"].as_array().unwrap().iter().map(|process| process["rank"].as_u64()).collect()
}

#[test]
fn a_killed_rank_loses_its_own_recording_alone() {
    let program = r#"
import os, subprocess, sys
rank = """
import os, torch
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), 9)
"""
for number in "012":
    subprocess.run([sys.executable, "-c", rank], env=dict(os.environ, RANK=number))
"#;
    let answer = answer(&mut python(&["--json"], "leak.pickle", program), 0);
    assert_eq!(ranks(&answer), [Some(0), Some(2)]);
}

/// `RANK` may be a variable of another program.
#[test]
fn a_number_that_is_no_rank_is_left_out() {
    for (rank, expected) in [("99999999999999999999", None), ("²", None), ("7", Some(7))] {
        let mut command = python(&["--json"], "leak.pickle", "import torch");
        assert_eq!(ranks(&answer(command.env("RANK", rank), 0)), [expected], "{rank}");
    }
}

/// A process that is killed while writing leaves its earlier recording.
#[test]
fn a_recording_is_whole_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.pickle");
    let options = ["--json", "--once", "--record", out.to_str().unwrap()];
    let program = "import torch; torch.cuda.memory.dies = True";
    let output = python(&options, "leak.pickle", program).output().unwrap();
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(!out.exists());

    // It writes at the first failed request, and is killed at the second write.
    let program = "import torch; torch._C.observer(0, 0, 0, 0); torch.cuda.memory.dies = True";
    let answer = answer(&mut python(&options, "leak.pickle", program), 2);
    assert_eq!(ranks(&answer), [None]);
    assert_eq!(fs::read(&out).unwrap(), fs::read(root().join("examples/leak.pickle")).unwrap());
}

/// A killed launcher leaves its ranks running: they get SIGTERM and write their recordings.
#[test]
fn processes_that_outlive_the_launcher_get_sigterm() {
    let program = r#"
import os, subprocess, sys
rank = """
import ctypes, time, torch
ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 20))
print("ready", flush=True)
time.sleep(600)
"""
started = subprocess.Popen([sys.executable, "-c", rank], stdout=subprocess.PIPE)
while b"ready" not in started.stdout.readline():
    pass
os.kill(os.getpid(), 9)
"#;
    let mut command = python(&["--json"], "leak.pickle", program);
    let answer = answer(command.env("RANK", "5"), 2);
    assert_eq!((ranks(&answer), &answer["signal"]), (vec![Some(5)], &9.into()));
    assert!(answer["gpus"][0]["peak_bytes"].as_u64().unwrap() > 1 << 20);
    assert_eq!((&answer["fullest_gpu"], &answer["fullest_rank"]), (&0.into(), &5.into()));
}

#[test]
fn two_phantom_runs_at_once_are_independent() {
    let program = r#"
import os, pathlib, time, torch
here, other = os.environ["MARKS"].split(":")
pathlib.Path(here).touch()
while not os.path.exists(other):
    time.sleep(0.01)
"#;
    let folder = tempfile::tempdir().unwrap();
    let start = |rank: &str, here: &str, other: &str| {
        let mark = |name: &str| folder.path().join(name).display().to_string();
        let mut command = python(&["--json"], "leak.pickle", program);
        command.env("RANK", rank).env("MARKS", format!("{}:{}", mark(here), mark(other)));
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    for (rank, run) in [(1, start("1", "a", "b")), (2, start("2", "b", "a"))] {
        let answer: Value = serde_json::from_slice(&run.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(ranks(&answer), [Some(rank)]);
    }
}

#[test]
fn a_pretended_rank_has_the_environment_of_torchrun() {
    let words = "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT";
    let pretended = |rank: &str| {
        run(&["phantom", "run", "--gpus", "8", "--world-size", "64", "--rank", rank, "--", "sh", "-c", words])
    };
    let output = pretended("11");
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(text(&output.stdout).starts_with("11 of 64, 3 of 8 at 127.0.0.1:29500\n"), "{output:?}");
    let output = pretended("64");
    assert_eq!(code(&output), 2);
    assert_eq!(text(&output.stderr), "error: there is no rank 64 among 64: ranks count from 0\n");
    assert_eq!(code(&run(&["phantom", "run", "--rank", "1", "--", "true"])), 2);
}
