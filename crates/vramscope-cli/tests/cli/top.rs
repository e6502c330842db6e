//! `vramscope top`: its JSON, and its screen in a terminal of tmux. The watched programs are pools of this test, which does nothing
//! meanwhile, so that every number is known.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use insta_cmd::assert_cmd_snapshot;
use serde_json::Value;
use tempfile::TempDir;
use vramscope::prelude::*;
use vramscope::profiler::live::{Connection, LiveOptions, LiveServer};
use vramscope::profiler::nvml_devices;

use crate::vramscope;

const MIB: u64 = 1 << 20;

/// Longer than any step of these tests on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A user's folders without programs of others.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        DirBuilder::new().mode(0o700).create(home.path().join("vramscope")).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn top(&self, args: &[&str]) -> Command {
        let mut command = vramscope(&[&["top"], args].concat());
        command.env("XDG_RUNTIME_DIR", self.path()).env("TMPDIR", self.path());
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.top(&[args, &["--json"]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A program that is found.
    fn serve(&self, title: &str) -> Serving {
        self.serve_at(title, &self.path().join(format!("vramscope/{title}.sock")))
    }

    fn serve_at(&self, title: &str, path: &Path) -> Serving {
        let device = Arc::new(VirtualDevice::with_capacity(1 << 30));
        let pool = MemoryPool::new(&Policy::cupy(), vec![device]).unwrap();
        let (path, title) = (Some(path.to_owned()), Some(title.to_owned()));
        let options = LiveOptions { path, collect_holders: true, title, ..LiveOptions::default() };
        let server = LiveServer::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
        let held = [weights(&pool), batch(&pool), batch(&pool)];
        // Resolving a stack for the first time may take long.
        let mut connection = Connection::open(server.path()).unwrap();
        while connection.look(3).unwrap().holders.unwrap().iter().any(|holder| holder.stack.is_none()) {}
        Serving { server, held, pool }
    }
}

struct Serving {
    server: LiveServer,
    held: [Allocation; 3],
    pool: MemoryPool,
}

#[inline(never)]
fn weights(pool: &MemoryPool) -> Allocation {
    pool.malloc(40 * MIB).unwrap()
}

#[inline(never)]
fn batch(pool: &MemoryPool) -> Allocation {
    pool.malloc(3 * MIB).unwrap()
}

/// `text` without parts that depend on the run, the machine or lines of this file.
fn constant(text: &str, home: &Path) -> String {
    let pid = std::process::id();
    let text =
        text.replace(&format!("{pid:>8}"), "     PID").replace(&format!("process {pid}"), "process PID");
    let text = text.replace(&home.display().to_string(), "HOME");
    let mut filtered = String::new();
    for line in text.lines() {
        let line = match line.split_once("read: ") {
            Some((start, _)) => format!("{start}read: WHY"),
            None => line.to_owned(),
        };
        // PATH/top.rs:LINE FUNCTION
        let line = match (line.find("top.rs:"), line.find(" cli::")) {
            (Some(file), Some(function)) => {
                let path = line[..file].rfind(' ').map_or(0, |space| space + 1);
                format!("{}top.rs:LINE{}", &line[..path], &line[function..])
            }
            _ => line,
        };
        filtered.push_str(&line);
        filtered.push('\n');
    }
    filtered
}

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["top", "--help"]));
}

#[test]
fn invalid_uses_of_top() {
    assert_cmd_snapshot!(vramscope(&["top"]));
    assert_cmd_snapshot!(vramscope(&["top", "--json", "--socket", "no/such.sock"]));
    assert_cmd_snapshot!(vramscope(&["top", "--json", "--socket", "README.md"]));
    assert_cmd_snapshot!(vramscope(&["top", "--json", "--interval", "0"]));
    assert_cmd_snapshot!(vramscope(&["top", "--json", "--interval", "soon"]));
}

#[test]
fn a_folder_that_is_open_to_others_is_refused() {
    let home = Home::new();
    let folder = home.path().join("vramscope");
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let output = home.top(&["--json"]).output().unwrap();
    let (folder, said) = (folder.display(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(
        said,
        format!("error: {folder}: is open to other users (mode 777); run `chmod 700 {folder}`\n")
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn top_does_not_wait_for_a_program_that_does_not_respond() {
    let home = Home::new();
    let path = home.path().join("vramscope/still.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    assert_eq!(home.json(&[])["programs"], serde_json::json!([]));
    let path = path.display();
    let output = home.top(&["--json", "--socket", &path.to_string()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, format!("error: {path}: no response within 2 s\n"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn one_look_as_json() {
    let home = Home::new();
    let _serving = home.serve("train");
    let mut look = home.json(&[]);
    // Exactly one of the two keys has a value, depending on the machine.
    assert_ne!(look["gpus"].is_null(), look["gpus_error"].is_null());
    let program = &mut look["programs"][0];
    assert_eq!(program["pid"], std::process::id());
    assert!(program["socket"].as_str().unwrap().ends_with("/vramscope/train.sock"));
    assert!(program["time_us"].as_i64().unwrap() > 1_700_000_000_000_000);
    for (key, instead) in [("pid", "PID"), ("socket", "PATH"), ("time_us", "TIME")] {
        program[key] = instead.into();
    }
    for holder in program["holders"].as_array_mut().unwrap() {
        // The callers belong to the test harness.
        let line = holder["stack"][0].as_str().unwrap();
        holder["stack"] = vec![constant(line, home.path()).trim_end()].into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&look["programs"]).unwrap());
}

#[test]
fn a_long_sample_contains_shorter_peaks() {
    let home = Home::new();
    let elsewhere = home.path().join("elsewhere.sock");
    let serving = home.serve_at("far", &elsewhere);
    let elsewhere = elsewhere.to_str().unwrap();
    let high = |look: Value| look["programs"][0]["high"]["allocated_bytes"].as_u64().unwrap() / MIB;
    assert_eq!(home.json(&[])["programs"], serde_json::json!([]));
    assert_eq!(high(home.json(&["--socket", elsewhere])), 46);
    let args = ["--json", "--socket", elsewhere, "--socket", elsewhere, "--interval", "1"];
    let mut child = home.top(&args).stdout(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        drop(serving.pool.malloc(500 * MIB).unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
    let look: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    // Naming a socket twice has no effect.
    assert_eq!(look["programs"].as_array().unwrap().len(), 1);
    assert_eq!(high(look), 546);
}

/// A terminal of a fixed size.
pub(crate) struct Screen {
    home: PathBuf,
}

impl Screen {
    /// Runs `vramscope top` with `args` in the terminal; `None` without tmux.
    pub(crate) fn start(home: &Home, args: &str, width: u16, height: u16) -> Option<Self> {
        Self::start_with("", home, args, width, height)
    }

    /// The same with environment variables, in shell syntax.
    pub(crate) fn start_with(
        environment: &str,
        home: &Home,
        args: &str,
        width: u16,
        height: u16,
    ) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            vramscope_testing::skip("tmux", "there is none");
            return None;
        }
        let program = env!("CARGO_BIN_EXE_vramscope");
        let script = format!(
            "cd {}; export XDG_RUNTIME_DIR=$PWD TMPDIR=$PWD; unset COLUMNS LINES; stty -g >before
            sh -c 'echo $$ >pid; exec env {environment} {program} top {args}'; echo exit code $?; stty -g >after; sleep 600",
            home.path().display()
        );
        fs::write(home.path().join("script"), script).unwrap();
        let screen = Self { home: home.path().to_owned() };
        let (width, height) = (width.to_string(), height.to_string());
        screen.tmux(&[
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "sh",
            screen.file("script").to_str()?,
        ]);
        Some(screen)
    }

    /// A screen on a machine without GPUs that is not updated automatically after the first time.
    fn golden(home: &Home) -> Option<Self> {
        if nvml_devices().is_ok() {
            vramscope_testing::skip("no-gpu", "this machine has a GPU, and the screens at hand have none");
            return None;
        }
        Self::start(home, "--interval 3600", 100, 24)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(self.file("tmux")).args(args).env_remove("TMUX");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Requests an update.
    fn look(&self) {
        self.press("Space");
        self.until("paused");
        self.press("Space");
        self.until("every");
    }

    /// The screen after `text` appears.
    pub(crate) fn until(&self, text: &str) -> String {
        self.until_that(|shown| shown.contains(text))
    }

    pub(crate) fn until_that(&self, is_there: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let shown = self.tmux(&["capture-pane", "-p"]);
            if is_there(&shown) {
                return constant(&shown, &self.home);
            }
            assert!(start.elapsed() < LONG, "still:\n{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Checks that the command exited with success and restored the terminal.
    pub(crate) fn is_given_back(&self) {
        let shown = self.until("exit code");
        assert_eq!(shown.trim(), "exit code 0");
        assert_eq!(self.tmux(&["display", "-p", "#{alternate_on} #{cursor_flag}"]), "0 1\n");
        self.until_that(|_| fs::read(self.file("after")).is_ok_and(|after| !after.is_empty()));
        let [before, after] = ["before", "after"].map(|name| fs::read_to_string(self.file(name)).unwrap());
        assert_eq!(before, after);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        Command::new("tmux").arg("-S").arg(self.file("tmux")).arg("kill-server").output().ok();
    }
}

#[test]
fn a_program_from_its_first_look_to_its_end() {
    let home = Home::new();
    let serving = home.serve("train");
    let Some(screen) = Screen::golden(&home) else { return };
    screen.until("cannot be read: ");
    insta::assert_snapshot!("first_look", screen.until("cli::top::batch"));

    // Shorter than the update interval, but included in the peak.
    drop(serving.pool.malloc(500 * MIB).unwrap());
    screen.look();
    insta::assert_snapshot!("high_water", screen.until("546.00 MiB"));
    screen.look();
    screen.until("▁█▁");

    screen.press("Tab");
    let details = screen.until_that(|s| s.contains("allocations") && s.contains("Holders of"));
    // The following lines are callers in the test.
    insta::assert_snapshot!("details", details.split_once("Holders of").unwrap().0);
    screen.press("Enter");
    screen.until("trend");

    screen.tmux(&["resize-window", "-x", "60", "-y", "15"]);
    // Too narrow for this column.
    insta::assert_snapshot!("narrow", screen.until_that(|s| s.contains("▁█▁") && !s.contains("reserved")));

    drop(serving.held);
    drop(serving.server);
    screen.look();
    insta::assert_snapshot!("ended", screen.until("ended"));
    (0..6).for_each(|_| screen.look());
    screen.until("No program serves");
    screen.press("q");
    screen.is_given_back();
}

#[test]
fn programs_are_found_selected_and_explained() {
    let home = Home::new();
    let _first = home.serve("a");
    let Some(screen) = Screen::golden(&home) else { return };
    screen.until("> a");
    let _second = home.serve("b");
    screen.look();
    screen.until_that(|shown| shown.lines().any(|line| line.starts_with("  b ") && line.contains('█')));
    for (key, selected) in [("Down", "> b"), ("Up", "> a"), ("j", "> b"), ("j", "> b"), ("k", "> a")] {
        screen.press(key);
        screen.until(selected);
    }
    screen.press("?");
    insta::assert_snapshot!("help_shown", screen.until("peak   most"));
}

#[test]
fn top_restores_the_terminal_after_every_end() {
    for key in ["q", "Escape", "C-c"] {
        let home = Home::new();
        let Some(screen) = Screen::start(&home, "", 80, 24) else { return };
        screen.until("q quit");
        screen.press(key);
        screen.is_given_back();
    }
    for signal in ["TERM", "INT", "HUP"] {
        let home = Home::new();
        let Some(screen) = Screen::start(&home, "", 80, 24) else { return };
        screen.until("q quit");
        let pid = fs::read_to_string(screen.file("pid")).unwrap();
        assert!(Command::new("kill").args(["-s", signal, pid.trim()]).status().unwrap().success());
        screen.is_given_back();
    }
}
