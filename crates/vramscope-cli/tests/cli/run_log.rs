//! `vramscope run` with a log: C programs on a phantom GPU.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vramscope_testing::phantom_run;

use crate::{run, vramscope};

/// A library that takes memory from the runtime, and a program that uses it.
fn compile(folder: &Path, program: &str) {
    let library = "#include <stddef.h>
int cudaMalloc(void **, size_t), cudaFree(void *); int cudaHostAlloc(void **, size_t, unsigned);
void *workspace(size_t size) { void *at = 0; return cudaMalloc(&at, size) ? NULL : at; }
void drop(void *at) { cudaFree(at); }
void *pinned(size_t size) { void *at = 0; return cudaHostAlloc(&at, size, 0) ? NULL : at; }";
    let program = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nvoid *workspace(size_t), *pinned(size_t), drop(void *);\n{program}"
    );
    std::fs::write(folder.join("communicator.c"), library).unwrap();
    std::fs::write(folder.join("program.c"), program).unwrap();
    let runtime = "int cudaMalloc(void) { return 1; } int cudaFree(void) { return 1; } int cudaHostAlloc(void) { return 1; }";
    std::fs::write(folder.join("runtime.c"), runtime).unwrap();
    let cc = |arguments: &str| {
        let status = Command::new("cc").current_dir(folder).args(arguments.split(' ')).status().unwrap();
        assert!(status.success(), "cc {arguments}");
    };
    cc("-w -shared -fPIC -o libruntime.so runtime.c");
    cc("-w -shared -fPIC -o libcommunicator.so communicator.c -L. -lruntime -Wl,-rpath,$ORIGIN");
    cc("-w -o program program.c -L. -lcommunicator -lruntime -Wl,-rpath,$ORIGIN -Wl,--no-as-needed");
}

#[test]
fn the_report_shows_the_memory_of_each_library() {
    let folder = tempfile::tempdir().unwrap();
    compile(
        folder.path(),
        "int main() { return !workspace(40 << 20) || !workspace(2 << 20) || !pinned(3 << 20); }",
    );
    let Some(phantom) = phantom_run(1) else { return };
    let [log, program] =
        ["run.vramscope", "program"].map(|name| folder.path().join(name).display().to_string());
    let output =
        vramscope(&["run", "--record", &log, "--", &program]).envs(phantom.environment()).output().unwrap();
    assert!(output.status.success() && output.stderr.starts_with(b"recorded "), "{output:?}");
    let report = String::from_utf8(run(&["report", &log]).stdout).unwrap();
    let memory = report.split_once("Device memory").map(|(_, rest)| rest).unwrap_or(&report);
    insta::assert_snapshot!(memory.lines().take(9).collect::<Vec<_>>().join("\n"));
}

#[test]
fn wrong_options_are_refused() {
    let said = |args: &[&str]| String::from_utf8(run(args).stderr).unwrap();
    assert_eq!(
        said(&["run", "--record", "run.vramscope", "--every", "5", "--", "true"]),
        "error: --every is for pickles: a log has all events, and is written while the program runs\n"
    );
    assert_eq!(
        said(&["run", "--record", "run.pickle", "--stacks", "all", "--", "true"]),
        "error: --stacks is for logs: name one, as --record run.vramscope\n"
    );
    assert_eq!(
        said(&["run", "--record", "run.pickle", "--keep", "2GiB", "--", "true"]),
        "error: --keep is for logs: name one, as --record run.vramscope\n"
    );
    assert_eq!(
        said(&["run", "--record", "run.pickle", "--at", "90%", "--", "true"]),
        "error: --at is for logs: name one, as --record run.vramscope\n"
    );
    let large = said(&["run", "--record", "run.vramscope", "--stacks", "large:all", "--", "true"]);
    assert!(large.starts_with("error: invalid value 'large:all' for '--stacks <FRAMES>': "), "{large}");
    assert!(said(&["run", "--record", "run.vramscope", "--at", "101%", "--", "true"]).contains("1% to 100%"));
    assert_eq!(
        said(&["run", "--record", "run.vramscope", "--keep", "1KiB", "--", "true"]),
        "error: --keep: a log needs at least 1.00 MiB\n"
    );
}

/// Each command that records: under the usual name beside an earlier recording, under a name that exists, with --force, and with the time.
#[test]
fn an_earlier_recording_is_never_replaced_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), "int main() { return !workspace(40 << 20); }");
    let Some(phantom) = phantom_run(1) else { return };
    let said = |args: &[&str]| {
        let mut command = vramscope(args);
        let output = command.envs(phantom.environment()).current_dir(folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let is_mine = |name: &str| std::fs::read(folder.path().join(name)).unwrap() == b"mine";
    let write = |name: &str| std::fs::write(folder.path().join(name), "mine").unwrap();
    let names = || {
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("run") && !name.starts_with("runtime"))
            .collect();
        names.sort();
        names
    };
    write("run.vramscope");
    let (code, text) = said(&["run", "--", "./program"]);
    assert!(code == Some(0) && text.contains("run.vramscope exists already: this recording is "), "{text}");
    assert_eq!(names(), ["run-2.vramscope", "run.vramscope"]);
    write("run.pickle");
    write("run.csv");
    let own = std::process::id().to_string();
    for args in [
        &["run", "--record", "run.vramscope", "--", "./program"][..],
        &["run", "--record", "run.pickle", "--", "./program"],
        &["attach", &own, "--record", "run.vramscope"],
        &["phantom", "run", "--record", "run.vramscope", "--", "./program"],
        &["phantom", "run", "--record", "run.pickle", "--", "./program"],
        &["monitor", &own, "--output", "run.csv", "--duration", "0.1"],
    ] {
        let (code, text) = said(args);
        assert!(code == Some(2) && text.contains("already exists; name another file"), "{args:?}: {text}");
    }
    assert!(["run.vramscope", "run.pickle", "run.csv"].iter().all(|name| is_mine(name)));
    said(&["run", "--record", "run-%t.vramscope", "--", "./program"]);
    said(&["run", "--record", "run-%t.vramscope", "--", "./program"]);
    let timed = names().into_iter().filter(|name| name.starts_with("run-20"));
    assert_eq!(timed.count(), 2, "{:?}", names());
    assert_eq!(said(&["run", "--force", "--record", "run.vramscope", "--", "./program"]).0, Some(0));
    said(&["monitor", &own, "--output", "run.csv", "--force", "--duration", "0.1"]);
    assert!(!is_mine("run.vramscope") && !is_mine("run.csv"));
}

/// The program handles the signal, and frees its memory before it exits.
#[test]
fn a_log_is_finished_by_appending_after_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let program = r#"#include <signal.h>
volatile int is_over;
void end(int signal) { is_over = 1; }
int main() {
    signal(SIGTERM, end);
    void *at = workspace(40 << 20);
    fclose(fopen("started", "w"));
    while (!is_over) usleep(1000);
    drop(at);
    return 7;
}"#;
    compile(folder.path(), program);
    let Some(phantom) = phantom_run(1) else { return };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut command = vramscope(&["run", "--record", &path("run.vramscope"), "--", &path("program")]);
    command.envs(phantom.environment()).current_dir(folder.path());
    let recorder = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while !Path::new(&path("started")).exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the program does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = Command::new("kill").args(["-TERM", &recorder.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = recorder.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(7), "{said}");
    let log = path("run.vramscope");
    assert!(said.starts_with("recorded 2 events ("), "{said}");
    assert!(said.ends_with(&format!(" to {log}; `vramscope report {log}` explains them\n")), "{said}");
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let logs = names.filter(|name| name.to_string_lossy().ends_with(".vramscope"));
    assert_eq!(logs.count(), 1);
    let report = String::from_utf8(run(&["report", &log]).stdout).unwrap();
    assert!(report.contains("40.00 MiB"), "{report}");
}

/// The program sets the variable of PyTorch's allocator itself, as Python programs do.
#[test]
fn a_log_says_how_it_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let program = r#"int main(int count, char **words) {
    setenv("PYTORCH_CUDA_ALLOC_CONF", words[1], 1);
    for (int i = 0; i < 30000; i++) { void *at = workspace(1 << 20); drop(at); }
    return !workspace(40 << 20);
}"#;
    compile(folder.path(), program);
    let Some(phantom) = phantom_run(1) else { return };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let words = ["run", "--keep", "1MiB", "--record", &path("run.vramscope"), "--", &path("program")];
    let mut command = vramscope(&[&words[..], &["expandable_segments:True", "--hf-token", "abc"]].concat());
    command.envs(phantom.environment()).env("RANK", "1").env("WORLD_SIZE", "4");
    assert!(command.status().unwrap().success());
    // Both logs of a limited recording.
    for name in ["run-rank1.vramscope", "run-before-rank1.vramscope"] {
        let json: serde_json::Value =
            serde_json::from_slice(&run(&["info", &path(name), "--json"]).stdout).unwrap();
        assert_eq!(json["allocator_conf"], "expandable_segments:True", "{name}");
        let recording = &json["recording"];
        let of = format!("{} expandable_segments:True --hf-token ***", path("program"));
        assert_eq!(recording["command"], of, "{name}");
        assert_eq!((&recording["rank"], &recording["world_size"]), (&"1".into(), &"4".into()));
        assert_eq!(recording["vramscope"], env!("CARGO_PKG_VERSION"));
        assert!(recording["device_0"].as_str().is_some_and(|name| !name.is_empty()), "{recording}");
        assert!(recording.get("torch").is_none(), "{recording}");
        let text = String::from_utf8(run(&["info", &path(name)]).stdout).unwrap();
        assert!(text.contains("rank        1 of 4") && text.contains("PyTorch unknown"), "{text}");
    }
}

/// A library counts the calls that write to the disk.
#[test]
fn a_log_is_written_to_the_disk_at_an_interval() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), "int main() { for (int i = 0; i < 40; i++) workspace(1 << 20), usleep(25000); }");
    let Some(phantom) = phantom_run(1) else { return };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let counts = "#include <fcntl.h>\n#include <stdlib.h>\n#include <unistd.h>\n
        static int count(void) {
            int file = open(getenv(\"COUNTED\"), O_WRONLY | O_CREAT | O_APPEND, 0600);
            return write(file, \"x\", 1) != 1 | close(file);
        }
        int fsync(int file) { return count(); } int fdatasync(int file) { return count(); }";
    std::fs::write(path("counts.c"), counts).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-w", "-shared", "-fPIC", "-o", &path("libcounts.so"), &path("counts.c")]);
    assert!(cc.status().unwrap().success());
    let calls = |options: &[&str]| {
        std::fs::remove_file(path("counted")).ok();
        let (log, program) = (path("run-%t.vramscope"), path("program"));
        let words = [&["run", "--record", &log][..], options, &["--", &program]].concat();
        let mut command = vramscope(&words);
        command.envs(phantom.environment()).env("COUNTED", path("counted"));
        // The phantom's libraries are for the program, which gets them from the command.
        let preload = phantom.environment().into_iter().find(|(name, _)| *name == "LD_PRELOAD");
        let mut value = std::ffi::OsString::from(path("libcounts.so"));
        if let Some((_, phantoms)) = preload {
            value.push(":");
            value.push(phantoms);
        }
        assert!(command.env("LD_PRELOAD", value).status().unwrap().success());
        std::fs::read(path("counted")).map_or(0, |calls| calls.len())
    };
    assert_eq!(calls(&[]), 0);
    assert!(calls(&["--sync", "0.2"]) >= 3);
}

/// A program that allocates memory and then waits, and the command that records it.
fn waiting(folder: &Path, phantom: &vramscope::phantom::PhantomRun) -> std::process::Child {
    let program = r#"int main() {
    workspace(40 << 20);
    fclose(fopen("started", "w"));
    while (access("go", F_OK)) usleep(1000);
}"#;
    compile(folder, program);
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = vramscope(&["run", "--record", &path("run.vramscope"), "--", &path("program")]);
    let recorder = command.envs(phantom.environment()).current_dir(folder).spawn().unwrap();
    let begin = Instant::now();
    while !folder.join("started").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the program does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    recorder
}

#[test]
fn dump_copies_the_log_of_a_running_program() {
    let folder = tempfile::tempdir().unwrap();
    let Some(phantom) = phantom_run(1) else { return };
    let mut recorder = waiting(folder.path(), &phantom);
    let path = |name: &str| folder.path().join(name).display().to_string();
    // By the process of `vramscope run`, and by that of the program.
    let said = run(&["dump", &recorder.id().to_string(), "--json"]);
    assert!(said.status.success(), "{said:?}");
    let json: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let copy = &json["copies"][0];
    assert_eq!(copy["path"], path("run-at-dump.vramscope"));
    assert_eq!(copy["report"]["devices"][0]["libraries"][0]["bytes"], 40 << 20);
    let program = copy["process"].to_string();
    let said = run(&["dump", &program, "-o", &path("now.vramscope")]);
    let text = String::from_utf8(said.stdout).unwrap();
    let text = text.strip_prefix(&format!("{}: the log until now\n", path("now.vramscope"))).unwrap();
    insta::assert_snapshot!(text);
    let info = |name: &str| {
        let said = run(&["info", &path(name), "--json"]);
        serde_json::from_slice::<serde_json::Value>(&said.stdout).unwrap()
    };
    assert_eq!(info("now.vramscope")["devices"], info("run-at-dump.vramscope")["devices"]);
    // A folder that does not exist. The recording is not disturbed.
    let said = run(&["dump", &program, "-o", &path("none/now.vramscope")]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("does not exist"), "{said:?}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert!(recorder.wait().unwrap().success());
    let report = String::from_utf8(run(&["report", &path("run.vramscope")]).stdout).unwrap();
    assert!(report.contains("40.00 MiB"), "{report}");
    let said = run(&["dump", &program]);
    assert_eq!(String::from_utf8_lossy(&said.stderr), format!("error: there is no process {program}\n"));
}

#[test]
fn dump_of_an_unrecorded_process_says_what_to_do() {
    let own = std::process::id().to_string();
    let said = run(&["dump", &own]);
    assert_eq!(said.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&said.stderr),
        format!(
            "error: process {own} is not recorded to a log, or has not used a GPU yet; `vramscope attach {own}` records it from now on\n"
        )
    );
}

/// The recorder is gone, and its folder stays.
#[test]
fn dump_says_that_the_recorder_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let Some(phantom) = phantom_run(1) else { return };
    let mut recorder = waiting(folder.path(), &phantom);
    let json = run(&["dump", &recorder.id().to_string(), "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let program = json["copies"][0]["process"].to_string();
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let said = run(&["dump", &program]);
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stderr),
        format!("error: the recorder of process {program} has ended; its log is complete until then\n")
    );
    // Without the folder, it would wait for the file without end.
    let start = Instant::now();
    while Path::new("/proc").join(&program).exists() && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Allocates memory that stays, and then a block at a time.
const LOOP: &str = "int main(int count, char **arguments) {
    workspace(40 << 20);
    int parent = getppid();
    for (int i = 0; count > 1 ? getppid() == parent : i < 60000; i++) drop(workspace(1 << 20));
}";

#[test]
fn a_limited_log_says_that_it_begins_with_older_memory() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), LOOP);
    let Some(phantom) = phantom_run(1) else { return };
    let [log, program, pickle] =
        ["run.vramscope", "program", "run.pickle"].map(|name| folder.path().join(name).display().to_string());
    let mut command =
        vramscope(&["run", "--record", &log, "--keep", "1MiB", "--also-pickle", &pickle, "--", &program]);
    let output = command.envs(phantom.environment()).output().unwrap();
    assert!(output.status.success() && output.stderr.starts_with(b"recorded "), "{output:?}");
    assert!(folder.path().join("run-before.vramscope").exists());
    let report = String::from_utf8(run(&["report", &log]).stdout).unwrap();
    assert!(report.contains("The log begins with "), "{report}");
    let json: serde_json::Value = serde_json::from_slice(&run(&["report", &log, "--json"]).stdout).unwrap();
    let quality = &json["devices"][0]["quality"];
    let older = quality["older_allocations"].as_u64().unwrap();
    assert!((1..=2).contains(&older) && quality["probably_overflowed"] == true, "{quality}");
    assert!(run(&["info", &pickle]).status.success());
}

/// `VRAMSCOPE_KILLS` sets the number of kills.
#[test]
fn a_recorder_that_is_killed_leaves_whole_logs() {
    let kills: u64 = std::env::var("VRAMSCOPE_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), LOOP);
    let Some(phantom) = phantom_run(1) else { return };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (log, before) = (path("run.vramscope"), path("run-before.vramscope"));
    for kill in 0..kills {
        let mut command = vramscope(&[
            "run",
            "--force",
            "--record",
            &log,
            "--keep",
            "1MiB",
            "--",
            &path("program"),
            "forever",
        ]);
        let mut recorder = command.envs(phantom.environment()).spawn().unwrap();
        let begin = Instant::now();
        while !Path::new(&before).exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the log is not cut");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_micros(kill * 7919 % 60_000));
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        for log in [&log, &before].into_iter().filter(|log| Path::new(log).exists()) {
            let output = run(&["info", log]);
            assert!(output.status.success(), "{output:?}");
        }
        assert!(Path::new(&log).exists());
        std::fs::remove_file(&before).ok();
    }
}

#[test]
fn a_program_without_gpu_memory_has_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.vramscope").display().to_string();
    let output = run(&["run", "--record", &log, "--", "sh", "-c", "exit 5"]);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "nothing was recorded: no process allocated GPU memory, or none loaded the recorder (a static or a setuid program)\n"
    );
    assert!(!Path::new(&log).exists());
}

/// Its reader is gone, and the program must not wait for it.
#[test]
fn a_program_continues_after_its_recorder_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let program = r#"int main() {
    workspace(1 << 20);
    fclose(fopen("started", "w"));
    while (access("go", F_OK)) usleep(1000);
    for (int i = 0; i < 400000; i++) workspace(0);
    fclose(fopen("ended", "w"));
}"#;
    compile(folder.path(), program);
    let Some(phantom) = phantom_run(1) else { return };
    let path = |name: &str| folder.path().join(name);
    let [log, program] = ["run.vramscope", "program"].map(|name| path(name).display().to_string());
    let mut command = vramscope(&["run", "--record", &log, "--", &program]);
    let mut recorder = command.envs(phantom.environment()).current_dir(folder.path()).spawn().unwrap();
    let wait_for = |name: &str| {
        let begin = Instant::now();
        while !path(name).exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{name} does not appear");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait_for("started");
    std::thread::sleep(Duration::from_millis(600));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    std::fs::write(path("go"), "").unwrap();
    wait_for("ended");
    let report = run(&["report", &log]);
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("libcommunicator.so"), "{report}");
}

/// The errors of a phantom run, of `vramscope run` and of `vramscope attach` whose log is at `log`. The program goes on when the file
/// `go` exists; `prepare` runs before, when it has used its GPU.
fn errors_of_recordings(log: &Path, prepare: &dyn Fn()) -> Option<[(i32, String); 3]> {
    let folder = tempfile::tempdir().unwrap();
    let program = r#"int main() {
    workspace(40 << 20);
    fclose(fopen("started", "w"));
    while (access("go", F_OK)) usleep(1000);
    workspace(2 << 20);
    usleep(600000);
    return 0;
}"#;
    compile(folder.path(), program);
    let phantom = phantom_run(1)?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (program, log) = (path("program"), log.to_str().unwrap());
    let commands: [&[&str]; 3] = [
        &["phantom", "run", "--gpu", "rtx4090", "--record", log, "--", &program],
        &["run", "--record", log, "--", &program],
        &["attach", "PID", "--record", log, "--for", "1.5"],
    ];
    Some(commands.map(|args| {
        let [started, go] = ["started", "go"].map(path);
        for file in [&started, &go] {
            std::fs::remove_file(file).ok();
        }
        let wait = |child: &mut std::process::Child| {
            while !Path::new(&started).exists() {
                assert!(child.try_wait().unwrap().is_none(), "{args:?} ended early");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        let mut attached = (args[0] == "attach").then(|| {
            let mut command = Command::new(&program);
            let mut child = command.envs(phantom.environment()).current_dir(folder.path()).spawn().unwrap();
            wait(&mut child);
            child
        });
        let pid = attached.as_ref().map_or(0, std::process::Child::id).to_string();
        let args: Vec<&str> = args.iter().map(|&arg| if arg == "PID" { &pid } else { arg }).collect();
        let mut command = vramscope(&args);
        if args[0] == "run" {
            command.envs(phantom.environment());
        }
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.current_dir(folder.path()).spawn().unwrap();
        wait(&mut child);
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        if attached.is_some() {
            stderr.read_line(&mut said).unwrap();
            assert!(said.starts_with("recording process"), "{said}");
        }
        prepare();
        std::fs::write(&go, "").unwrap();
        stderr.read_to_string(&mut said).unwrap();
        let output = child.wait_with_output().unwrap();
        attached.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
        let answer = String::from_utf8(output.stdout).unwrap();
        assert!(!answer.contains("Recording:"), "{answer}");
        (output.status.code().unwrap(), said)
    }))
}

/// The exit code of `vramscope run` is that of the program.
#[test]
fn a_log_on_a_full_disk_is_an_error() {
    let Some(disk) = crate::outputs::FullDisk::new("64k") else { return };
    disk.fill();
    let log = disk.path().join("run.vramscope");
    let Some(errors) = errors_of_recordings(&log, &|| ()) else { return };
    let why =
        format!("{}: No space left on device (os error 28); the recording is incomplete", log.display());
    for ((code, said), expected) in errors.iter().zip([2, 0, 2]) {
        assert_eq!(*code, expected, "{said}");
        assert!(said.contains(&why), "{said}");
        let is_error = said.lines().last().is_some_and(|line| line == format!("error: {why}"));
        assert_eq!(is_error, expected == 2, "{said}");
    }
}

#[test]
fn a_log_whose_folder_was_removed_is_an_error() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("logs");
    let log = folder.join("run.vramscope");
    std::fs::create_dir(&folder).unwrap();
    let remove = || {
        // The name is taken before the log is opened: only a log with content is being written.
        let began = std::time::Instant::now();
        let is_written = || std::fs::metadata(&log).is_ok_and(|of| of.len() > 0);
        while !is_written() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(200));
        std::fs::remove_dir_all(&folder).unwrap();
        // For the next command, which needs the folder at its start.
        std::fs::create_dir(&folder).unwrap();
    };
    let Some(errors) = errors_of_recordings(&log, &remove) else { return };
    let why = format!(
        "{}: the file was removed or replaced while it was written; the recording is incomplete",
        log.display()
    );
    for ((code, said), expected) in errors.iter().zip([2, 0, 2]) {
        assert_eq!(*code, expected, "{said}");
        assert!(said.contains(&why), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_running_process_is_recorded_for_some_time() {
    let folder = tempfile::tempdir().unwrap();
    compile(
        folder.path(),
        r#"int main() {
    workspace(40 << 20);
    fclose(fopen("started", "w"));
    for (;;) usleep(1000), free(malloc(10)), workspace(1 << 10);
}"#,
    );
    let Some(phantom) = phantom_run(1) else { return };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut program = Command::new(path("program"));
    let mut program = program.envs(phantom.environment()).current_dir(folder.path()).spawn().unwrap();
    while !Path::new(&path("started")).exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let (log, pid) = (path("run.vramscope"), program.id().to_string());
    let output = run(&["attach", &pid, "--record", &log, "--for", "0.3"]);
    let is_running = program.try_wait().unwrap().is_none();
    program.kill().unwrap();
    program.wait().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && is_running, "{said}");
    assert!(
        said.starts_with(&format!("recording process {pid}, which was stopped for "))
            && said.contains(" ms; Ctrl-C ends the recording\nrecorded "),
        "{said}"
    );
    let report = String::from_utf8(run(&["report", &log]).stdout).unwrap();
    assert!(report.contains("libcommunicator.so") && !report.contains("40.00 MiB"), "{report}");
    assert!(report.contains("The recorder was attached while the program ran"), "{report}");
    let output = run(&["attach", &pid, "--record", &log, "--force"]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("error: there is no process {pid}\n"));
}
