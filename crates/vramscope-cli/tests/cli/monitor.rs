//! Tests of watching another process.
#![cfg(unix)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use insta_cmd::assert_cmd_snapshot;
use vramscope::prelude::*;
use vramscope::profiler::live::{LiveOptions, LiveServer};

use crate::{run, vramscope};

/// The child's socket; set only by the parent.
const SOCKET: &str = "VRAMSCOPE_TEST_SOCKET";

/// Repeatedly requests more than is available, and holds 30 MiB of 100 MiB in between.
#[test]
fn child() {
    let Some(path) = std::env::var_os(SOCKET) else { return };
    let pool = MemoryPool::on_host(Policy::cupy(), 100 << 20).unwrap();
    let options =
        LiveOptions { path: Some(path.into()), title: Some("training".to_owned()), ..LiveOptions::default() };
    let _server = LiveServer::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    loop {
        let _weights = pool.malloc(30 << 20).unwrap();
        // Far shorter than the sampling interval.
        drop(pool.malloc(60 << 20).unwrap());
        pool.free_all_blocks().unwrap();
        pool.malloc(80 << 20).unwrap_err();
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn serve(socket: &Path) -> Killed {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["monitor::child", "--exact"])
        .env(SOCKET, socket)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = Killed(child);
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Sends SIGKILL, so that the program cannot end its connection properly.
#[test]
fn a_killed_process_leaves_a_readable_log() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, log) = (folder.path().join("live.sock"), folder.path().join("run.jsonl"));
    let child = serve(&socket);
    let monitor = vramscope(&["monitor", socket.to_str().unwrap(), "--interval", "0.02", "--json", "-o"])
        .arg(&log)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whole lines while it runs.
    let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    while lines() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(child);
    let output = monitor.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));

    let log = fs::read_to_string(&log).unwrap();
    let rows: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = rows.iter().map(|row| row["event"].as_str().unwrap()).collect();
    assert_eq!((events[0], &events[events.len() - 2..]), ("start", ["gone", "stop"].as_slice()));
    let samples: Vec<_> = rows.iter().filter(|row| row["event"] == "sample").collect();
    let high = |row: &serde_json::Value| row["high_allocated_bytes"].as_u64().unwrap() >> 20;
    assert_eq!(samples.iter().map(|row| high(row)).max(), Some(90));
    assert!(samples.iter().all(|row| row["high_is_exact"] == true && row["device_total_bytes"] == 100 << 20));

    let summary = json(&output);
    assert_eq!(
        (&summary["ended"], &summary["high"]["allocated_bytes"]),
        (&"gone".into(), &(90 << 20).into())
    );
    assert_eq!(summary["samples"], samples.len());
    assert!(summary["failed_requests"].as_u64().unwrap() > 0);
}

/// The log then has no end record, and all its lines are complete.
#[test]
fn a_killed_monitor_leaves_a_readable_log() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, log) = (folder.path().join("live.sock"), folder.path().join("run.csv"));
    let _child = serve(&socket);
    let monitor = vramscope(&["monitor", socket.to_str().unwrap(), "--interval", "0.005", "--output"])
        .arg(&log)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let monitor = Killed(monitor);
    while fs::read_to_string(&log).unwrap_or_default().lines().count() < 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(monitor);
    let mut csv = csv::Reader::from_path(&log).unwrap();
    assert_eq!(csv.headers().unwrap().get(0), Some("time_us"));
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert!(rows.len() >= 9 && rows.iter().all(|row| row[0].parse::<i64>().is_ok()));
}

#[test]
fn an_alert_is_reported_once_and_gives_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("live.sock");
    let _child = serve(&socket);
    let output = run(&[
        "monitor",
        socket.to_str().unwrap(),
        "--interval",
        "0.05",
        "--duration",
        "0.5",
        "--alert",
        "device=80%",
        "--alert",
        "hidden=1GiB",
        "--alert",
        "growth=1GiB",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let alert = "warning: device memory in use reached 90.0 %; the threshold is 80.0 %";
    let never = "note: growth of allocated memory was never measured, so it raised no alert";
    assert_eq!(text(&output.stderr).lines().collect::<Vec<_>>(), [alert, never]);
    let said = text(&output.stdout);
    assert!(said.contains(alert) && said.contains("  allocated          90.00 MiB  peak\n"), "{said}");
    assert!(said.contains("requests ran out of memory"), "{said}");
    // A closed pipe never changes the exit code.
    for json in [&[][..], &["--json"]] {
        let args = ["monitor", socket.to_str().unwrap(), "--duration", "0.5", "--alert", "device=80%"];
        let unread = vramscope(&[&args, json].concat()).stdout(crate::outputs::unread()).output().unwrap();
        assert_eq!(unread.status.code(), Some(1), "{}", text(&unread.stderr));
    }
}

/// Host memory is available for every process; GPU and pool only if a source exists.
#[test]
#[cfg(target_os = "linux")]
fn a_process_that_serves_nothing_has_its_host_memory() {
    let child = Killed(Command::new("sleep").arg("60").spawn().unwrap());
    let pid = child.0.id().to_string();
    let output = run(&["monitor", &pid, "--duration", "0.2", "--json"]);
    assert!(output.status.success());
    let summary = json(&output);
    assert_eq!(
        (&summary["source"], &summary["ended"]),
        (&format!("process {pid}").into(), &"duration".into())
    );
    assert!(summary["high"]["cpu_bytes"].as_u64().unwrap() > 0);
    assert_eq!((&summary["high"]["allocated_bytes"], &summary["high_is_exact"]), (&().into(), &false.into()));
    assert!(text(&output.stderr).contains("note: the process serves no pool"));
}

#[test]
fn an_existing_log_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let process = std::process::id().to_string();
    for name in ["run.csv", "run.jsonl"] {
        let log = folder.path().join(name);
        let args = ["monitor", &process, "--duration", "0.05", "--interval", "0.01", "-o"];
        let args = [&args[..], &[log.to_str().unwrap()]].concat();
        // An empty file, as from `mktemp`, has nothing to lose.
        fs::write(&log, "").unwrap();
        assert_eq!(run(&args).status.code(), Some(0));
        let before = fs::read(&log).unwrap();
        assert!(!before.is_empty());
        let again = run(&args);
        assert_eq!(again.status.code(), Some(2));
        let said = text(&again.stderr).lines().last().unwrap();
        let why = "already exists; name another file (%t in a name stands for the time), or replace it with --force";
        assert_eq!(said, format!("error: {}: {why}", log.display()));
        assert_eq!(fs::read(&log).unwrap(), before);
    }
}

/// Starts a monitor of this process that logs to `log`, and waits until the log has lines.
#[cfg(target_os = "linux")]
fn watching(log: &Path) -> Child {
    let process = std::process::id().to_string();
    let mut command = vramscope(&["monitor", &process, "--interval", "0.005", "-o"]);
    let child = command.arg(log).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while fs::read_to_string(log).unwrap_or_default().lines().count() < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// The output of a monitor that Ctrl-C ends.
#[cfg(target_os = "linux")]
fn interrupted(child: Child) -> Output {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_whose_folder_was_removed_is_an_error() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("logs");
    fs::create_dir(&folder).unwrap();
    let log = folder.join("run.jsonl");
    let child = watching(&log);
    fs::remove_dir_all(&folder).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let output = interrupted(child);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let why = "the file was removed or replaced while it was written";
    assert_eq!(said.lines().filter(|line| line.contains(why)).count(), 2, "at once and at the end: {said}");
    let last = format!("error: {}: {why}; the log is incomplete", log.display());
    assert_eq!(said.lines().last(), Some(last.as_str()));
    // The summary is printed all the same.
    assert!(text(&output.stdout).contains("samples"), "{}", text(&output.stdout));
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_on_a_full_disk_is_an_error_and_keeps_its_lines() {
    let Some(disk) = crate::outputs::FullDisk::new("64k") else { return };
    let log = disk.path().join("run.jsonl");
    let child = watching(&log);
    disk.fill();
    let full = fs::metadata(&log).unwrap().len();
    while fs::metadata(&log).unwrap().len() < full.next_multiple_of(4096) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    let output = interrupted(child);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let why = format!("error: {}: no space left on the disk; the log is incomplete", log.display());
    assert_eq!(said.lines().last(), Some(why.as_str()));
    let kept = fs::read_to_string(&log).unwrap();
    let (kept, _) = kept.rsplit_once('\n').unwrap();
    assert!(kept.lines().count() >= 5);
    kept.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));

    // A log that cannot begin is an error at once.
    let next = disk.path().join("next.csv");
    let process = std::process::id().to_string();
    let output = run(&["monitor", &process, "--duration", "60", "-o", next.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let why = format!("error: {}: no space left on the disk; the log is incomplete", next.display());
    assert_eq!(text(&output.stderr).lines().last(), Some(why.as_str()));
}

#[test]
fn prometheus_scrapes_what_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("live.sock");
    let _child = serve(&socket);
    let mut monitor = vramscope(&["monitor", socket.to_str().unwrap(), "--prometheus", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .map(Killed)
        .unwrap();
    let mut said = Vec::new();
    let stderr = monitor.0.stderr.as_mut().unwrap();
    while !said.ends_with(b"/metrics\n") {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    let address =
        text(&said).trim().trim_start_matches("metrics at http://").trim_end_matches("/metrics").to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let total = format!(" {}\n", 100 << 20);
    assert!(
        answer
            .lines()
            .any(|line| line.starts_with("vramscope_device_total_bytes{")
                && format!("{line}\n").ends_with(&total)),
        "{answer}"
    );
}

#[test]
fn nonsense_is_refused() {
    assert_cmd_snapshot!(vramscope(&["monitor", "no-such-thing"]));
    assert_cmd_snapshot!(vramscope(&["monitor", "4000000000"]));
    assert_cmd_snapshot!(vramscope(&["monitor", "README.md"]));
    assert_cmd_snapshot!(vramscope(&["monitor", "1", "--interval", "0"]));
    assert_cmd_snapshot!(vramscope(&["monitor", "1", "--alert", "device=120%"]));
    assert_cmd_snapshot!(vramscope(&["monitor", "1", "--alert", "speed=1"]));
    let log = run(&["monitor", "1", "--output", "/no/such/folder/log.csv"]);
    assert_eq!(log.status.code(), Some(2));
    // Notes about unknown values come first.
    let said = text(&log.stderr).lines().last().unwrap();
    assert!(said == "error: /no/such/folder/log.csv: the folder for the recording does not exist", "{said}");
    assert_cmd_snapshot!(vramscope(&["monitor", "--help"]));
}
