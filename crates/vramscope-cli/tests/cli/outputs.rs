//! Output to closed pipes and full disks, and signals during output.
#![cfg(unix)]

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{root, run, vramscope};

/// Longer than any step of these tests on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A pipe whose reader is closed.
pub(crate) fn unread() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn the_verdict_does_not_depend_on_who_reads() {
    let oom = "examples/oom.pickle";
    let cases: [(&[&str], i32); 11] = [
        (&["replay", oom], 1),
        (&["replay", oom, "--json"], 1),
        (&["replay", oom, "--capacity", "64GiB"], 0),
        (&["check", oom, "--no-oom"], 1),
        (&["check", oom, "--no-oom", "--json"], 1),
        (&["check", oom, "--no-oom", "--junit", "-"], 1),
        (&["check", oom, "--max-peak", "1TiB"], 0),
        (&["report", oom], 0),
        (&["info", oom, "--json"], 0),
        (&["export", oom, "--format", "csv"], 0),
        (&["export", oom, "--format", "parquet", "-o", "-"], 0),
    ];
    for (args, code) in cases {
        let read = run(args);
        assert_eq!(read.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&read.stderr));
        let mut command = vramscope(args);
        let output = command.stdout(unread()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), &output.stderr), (Some(code), &read.stderr), "{args:?}");
        let both = vramscope(args).stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(both.code(), Some(code), "{args:?}");
    }
}

/// A failed write of notes to stderr does not stop the answer.
#[test]
fn a_failed_write_of_notes_does_not_stop_the_answer() {
    let args = ["check", "fuzz/corpus/read/log-cut", "--max-peak", "1"];
    let read = run(&args);
    assert!(!read.stderr.is_empty());
    let output = vramscope(&args).stderr(unread()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(1), read.stdout));
}

/// All commands that write a file, each into a separate folder.
fn writers(folder: &Path, recording: &str) -> Vec<(PathBuf, Vec<String>)> {
    let cases: [(&str, &[&str]); 6] = [
        ("run.csv", &["export", recording, "-o"]),
        ("run.json", &["export", recording, "-o"]),
        ("page.html", &["view", recording, "--html"]),
        ("memory.xml", &["check", recording, "--no-oom", "--junit"]),
        ("plan.json", &["plan", "examples/training.pickle.zst", "-o"]),
        ("fleet.xml", &["fleet", recording, "--no-cache", "--max-peak", "80GiB", "--junit"]),
    ];
    let whole = |(name, args): (&str, &[&str])| {
        let path = folder.join(name);
        let args = args.iter().map(|&arg| arg.to_owned()).chain([path.display().to_string()]);
        (path.clone(), args.collect())
    };
    cases.map(whole).into()
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_full_disk_error_names_the_requested_file() {
    let folder = tempfile::tempdir().unwrap();
    for (path, args) in writers(folder.path(), "examples/oom.pickle") {
        std::fs::write(&path, "as it was").unwrap();
        // The limit on file sizes, in the shell's units of 512 or 1024 bytes.
        let output = Command::new("sh")
            .args(["-c", "ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_vramscope")])
            .args(&args)
            .current_dir(root())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        let error = said.lines().last().unwrap();
        assert!(error.starts_with(&format!("error: {}: ", path.display())), "{error}");
        assert!(error.contains("File too large") && !error.contains(".part"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"as it was");
    }
    let left = names(folder.path());
    assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
    #[cfg(target_os = "linux")]
    for args in [
        &["export", "examples/oom.pickle", "--format", "csv", "-o", "/dev/full"][..],
        &["check", "examples/oom.pickle", "--no-oom", "--junit", "/dev/full"],
        &["view", "examples/oom.pickle", "--html", "/dev/full"],
    ] {
        let output = run(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("error: /dev/full: ") && said.contains("No space left"), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

/// Help and completions are answers, too.
#[test]
#[cfg(target_os = "linux")]
fn an_answer_that_cannot_be_written_is_an_error() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["report", "--help"],
        &["help", "monitor"],
        &["completions", "bash"],
        &["phantom", "list"],
        &["report", "examples/oom.pickle"],
        &["report", "examples/oom.pickle", "--json"],
        &["info", "examples/oom.pickle"],
        &["check", "examples/oom.pickle", "--no-oom", "--json"],
        &["check", "examples/oom.pickle", "--no-oom", "--junit", "-"],
        &["replay", "examples/oom.pickle"],
        &["plan", "examples/training.pickle.zst", "--json"],
        &["diff", "examples/leak.pickle", "examples/oom.pickle"],
        &["export", "examples/oom.pickle", "--format", "csv"],
        &["fleet", "examples/oom.pickle", "--no-cache", "--json"],
        &["top", "--json"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = vramscope(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let last = said.lines().last().unwrap_or_default();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        let is_named = last.starts_with("error: standard output: ");
        assert!(is_named && last.ends_with("No space left on device (os error 28)"), "{args:?}: {last}");
    }
}

/// A file system without free space; `None` if the user is not root.
#[cfg(target_os = "linux")]
pub(crate) struct FullDisk {
    folder: TempDir,
}

#[cfg(target_os = "linux")]
impl FullDisk {
    /// A disk of this size, in the form of `mount`'s option.
    pub(crate) fn new(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(folder.path());
        if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            vramscope_testing::skip("root", "only root can mount a file system");
            return None;
        }
        Some(Self { folder })
    }

    /// Changes the size.
    pub(crate) fn resize(&self, size: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(self.path());
        assert!(mount.status().unwrap().success());
    }

    /// Takes all free space, with a file.
    pub(crate) fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
        while file.write(&[0; 4096]).is_ok() {}
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(target_os = "linux")]
impl Drop for FullDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(self.path()).status().ok();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_split_that_fails_leaves_nothing_in_the_way_of_the_next() {
    let Some(disk) = FullDisk::new("128k") else { return };
    let parts = disk.path().join("parts");
    let args = ["split", "examples/training.pickle.zst", "-o", parts.to_str().unwrap(), "--events", "200"];
    let output = run(&args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let error = said.lines().last().unwrap();
    let (file, why) = error.rsplit_once(": ").unwrap();
    assert!(file.starts_with(&format!("error: {}/part-", parts.display())), "{error}");
    assert!(!file.ends_with("part-0000.pickle"), "the first part has to fit: {error}");
    assert_eq!(why, "No space left on device (os error 28)");
    assert_eq!(names(&parts), [""; 0]);
    disk.resize("64m");
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut written = names(&parts);
    written.sort();
    assert_eq!(written[0], "part-0000.pickle");
    assert!(written.len() > 2 && written.iter().all(|name| name.ends_with(".pickle")), "{written:?}");
}

/// The export of a recording as CSV, to `out` in a shell: `$@` is the command without `-o`.
#[cfg(target_os = "linux")]
fn exported_by(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let recording = root().join("examples/oom.pickle");
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", env!("CARGO_BIN_EXE_vramscope"), "export"]);
    command.arg(recording).args(["--format", "csv"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.path().join("out")).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn descriptors_are_written_to_as_a_shell_would() {
    let csv = String::from_utf8(run(&["export", "examples/oom.pickle", "--format", "csv"]).stdout).unwrap();
    for script in [
        r#""$@" > out"#,
        r#""$@" -o /dev/stdout > out"#,
        r#""$@" -o /dev/stdout | cat > out"#,
        r#""$@" -o /dev/stderr 2> out"#,
        r#""$@" -o /dev/fd/3 3> out"#,
        r#""$@" -o /proc/self/fd/3 3> out"#,
        r#""$@" -o >(cat > out; touch done); until [ -e done ]; do sleep 0.01; done"#,
        r#"mkfifo pipe; cat pipe > out & "$@" -o pipe; wait"#,
        // The reader comes later.
        r#"mkfifo pipe; "$@" -o pipe & sleep 0.3; cat pipe > out; wait"#,
        r#"mkfifo pipe; ln -s pipe link; cat pipe > out & "$@" -o link; wait"#,
        // A pipe of this user that belongs to another process.
        r#"sleep 60 > out & "$@" -o /proc/$!/fd/1; kill $!"#,
    ] {
        assert_eq!(exported_by(script), csv, "{script}");
    }
    for script in [
        r#"echo before > out; "$@" -o /dev/stdout >> out; echo after >> out"#,
        r#"{ echo before; "$@" -o /dev/stdout; echo after; } > out"#,
        r#"{ echo before; "$@" -o /dev/stdout; echo after; } | cat > out"#,
        r#"echo before > out; "$@" -o /dev/fd/3 3>> out; echo after >> out"#,
    ] {
        assert_eq!(exported_by(script), format!("before\n{csv}after\n"), "{script}");
    }
}

/// A recording whose export takes a while.
fn long_recording(folder: &Path) -> String {
    let frames: Vec<String> =
        (0..60).map(|i| format!(r#"{{"name": "f", "filename": "a{i}.py", "line": {i}}}"#)).collect();
    let frames = frames.join(",");
    let event = |i: u64| {
        format!(
            r#"{{"action": "alloc", "addr": {}, "size": 9, "stream": 0, "frames": [{frames}]}}"#,
            512 * (i + 1)
        )
    };
    let events: Vec<String> = (0..20_000).map(event).collect();
    let path = folder.join("long.json");
    std::fs::write(&path, format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, events.join(",")))
        .unwrap();
    path.display().to_string()
}

fn kill(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
}

/// `command` with default signal handling, as in a terminal. The test runner may ignore some signals, as `nohup` does, and child processes
/// inherit that. Only `env` of Linux can reset it.
fn with_default_signals(command: &Command) -> Command {
    let mut with = if cfg!(target_os = "linux") {
        let mut env = Command::new("env");
        env.arg("--default-signal").arg(command.get_program());
        env
    } else {
        Command::new(command.get_program())
    };
    with.args(command.get_args());
    with.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    with
}

/// The status of `command` after it got `signal` while writing into `folder`; `None` if it finished earlier.
fn interrupted(command: &Command, folder: &TempDir, signal: &str) -> Option<ExitStatus> {
    let mut child = with_default_signals(command).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !names(folder.path()).iter().any(|name| name.ends_with(".part")) {
        assert!(start.elapsed() < LONG);
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(&child, signal);
    let status = child.wait().unwrap();
    (!folder.path().join("out.csv").exists()).then_some(status)
}

#[test]
fn a_signal_leaves_no_unfinished_file() {
    use std::os::unix::process::ExitStatusExt as _;
    let recordings = tempfile::tempdir().unwrap();
    let recording = long_recording(recordings.path());
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)] {
        let status = (0..20).find_map(|_| {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out.csv");
            let command = vramscope(&["export", &recording, "-o", out.to_str().unwrap()]);
            let status = interrupted(&command, &folder, signal)?;
            assert_eq!(names(folder.path()), [""; 0], "{signal}");
            Some(status)
        });
        // It ended with the signal, so that shells report 128 plus its number and loops stop.
        assert_eq!(status.unwrap().signal(), Some(number), "{signal}");
    }
}

/// The command as started by `nohup`.
#[test]
fn a_command_under_nohup_ignores_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let recording = long_recording(folder.path());
    let out = folder.path().join("out.csv");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_vramscope")]);
    command.args(["export", &recording, "-o", out.to_str().unwrap()]);
    let mut child = command.spawn().unwrap();
    while !out.exists() && !names(folder.path()).iter().any(|name| name.ends_with(".part")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(&child, "HUP");
    assert!(child.wait().unwrap().success());
    assert!(out.exists());
}
