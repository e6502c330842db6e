//! Forked processes of a process with a pool: a child never hangs and never touches the parent's resources.
//!
//! The parent is a separate process, so that a hanging child is found and killed.
#![allow(unsafe_code, reason = "forking is unsafe")]

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vramscope_allocator::hooks::DebugPrintHook;
use vramscope_allocator::{AllocError, HistoryError, HistoryOptions, MemoryPool};
use vramscope_profiler::live::{LiveOptions, LiveServer};
use vramscope_profiler::{
    GpuMemoryProfiler, LeakDetector, LogFile, MemoryTracker, Monitor, PoolSource, ProfilerOptions,
    PrometheusEndpoint, TrackerOptions,
};
use vramscope_trace::formats;

use crate::torch_2_11;

/// The parent to run and its output file; set only by the tests.
const PARENT: &str = "VRAMSCOPE_TEST_FORK";

/// Maximum time of a child on a busy machine. Its work takes microseconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn new_pool() -> MemoryPool {
    MemoryPool::on_host(torch_2_11(), 1 << 30).unwrap()
}

/// Runs `child` in a forked process. Returns true if `child` returned true, false if it failed or hung.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls the C library's allocator, which glibc keeps usable after a fork, and exits without running the parent's exit
    // handlers.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let code =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).map_or(2, |ok| i32::from(!ok));
        // SAFETY: it ends the process and does not return.
        unsafe { libc::_exit(code) };
    }
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the process is a child of this process that is not reaped yet; `status` is writable.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if ended == pid {
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        }
        if begin.elapsed() > PATIENCE {
            // SAFETY: as above: the id still belongs to that child.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Runs one of the parents below as a separate process that writes to `file`.
fn parent(name: &str, file: &Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["fork::parents", "--exact", "--nocapture"])
        .env(PARENT, format!("{name}:{}", file.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn parents() {
    let Ok(which) = std::env::var(PARENT) else { return };
    let (name, file) = which.split_once(':').unwrap();
    match name {
        "busy" => busy(Path::new(file)),
        "watched" => watched(Path::new(file)),
        "profiled" => profiled(Path::new(file)),
        _ => dropping(Path::new(file)),
    }
}

fn stream_to(file: &Path) -> HistoryOptions {
    HistoryOptions { stream_to: Some(file.to_owned()), ..HistoryOptions::default() }
}

/// Forks while other threads allocate, free, annotate regions and register hooks.
fn busy(file: &Path) {
    let pool = new_pool();
    pool.record_memory_history(&stream_to(file)).unwrap();
    let going = AtomicBool::new(true);
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while going.load(Ordering::Relaxed) {
                    let _region = pool.annotate("step");
                    let _scope = pool.peak_scope();
                    let _hook = pool.register_hook(Arc::new(DebugPrintHook::new(std::io::sink())));
                    let private = pool.private_pool();
                    let block = private.malloc_on(0, 5000);
                    drop(pool.malloc(3 << 20));
                    drop(block);
                }
            });
        }
        let mut failed = 0;
        for i in 0..200u64 {
            let block = pool.malloc(1000 + i).unwrap();
            let (region, scope) = (pool.annotate("forked"), pool.peak_scope());
            // The parent leaks these each time: it must not drop them before the child does.
            let held = std::mem::ManuallyDrop::new((block, region, scope, pool.clone()));
            let child = || {
                let (block, region, scope, pool) = std::mem::ManuallyDrop::into_inner(held);
                let asked = pool.malloc(100);
                let refused = matches!(asked, Err(AllocError::Forked));
                let recording = pool.record_memory_history(&HistoryOptions::default());
                let refused = refused && matches!(recording, Err(HistoryError::Forked));
                let later = pool.annotate("later");
                drop((block, region, scope, later, pool));
                refused
            };
            failed += u32::from(!forked(child));
        }
        going.store(false, Ordering::Relaxed);
        assert_eq!(failed, 0);
    });
}

/// The child drops the last handles of allocations, of a hook, and of a pool with its stream.
fn dropping(file: &Path) {
    for i in 0..20 {
        let pool = new_pool();
        let hook = pool.register_hook(Arc::new(DebugPrintHook::new(std::io::sink()))).unwrap();
        pool.record_memory_history(&stream_to(file)).unwrap();
        let blocks: Vec<_> = (0..10).map(|n| pool.malloc(n << 18).unwrap()).collect();
        let region = pool.annotate("whole");
        let mut held = Some((pool, hook, blocks, region));
        let ok = forked(|| {
            drop(held.take());
            // The child's pool works normally, but the parent still has the file locked.
            let pool = new_pool();
            let block = pool.malloc(1000).unwrap();
            let busy = matches!(pool.record_memory_history(&stream_to(file)), Err(HistoryError::Busy { .. }));
            drop(block);
            busy && pool.used_bytes() == 0
        });
        assert!(ok, "round {i}");
        let (pool, hook, blocks, region) = held.unwrap();
        drop((blocks, region, hook));
        drop(pool);
        let recording = formats::read(std::fs::File::open(file).unwrap()).unwrap();
        assert_eq!(recording.notices, vramscope_trace::Notices::default());
        let ends = recording.trace.annotations.as_ref().unwrap().len();
        assert_eq!((recording.trace.devices[0].segments.len(), ends), (0, 2));
    }
}

/// The child drops a monitor, a tracker with a log, an endpoint and a live server, whose threads do not exist there.
fn watched(file: &Path) {
    for round in 0..10 {
        let pool = new_pool();
        let source = PoolSource::new(&pool, 0).unwrap();
        let monitor = Monitor::start(source.clone(), Duration::from_millis(1), |_| ()).unwrap();
        let options = TrackerOptions {
            log: Some(LogFile::at(file)),
            interval: Duration::from_secs(3600),
            ..TrackerOptions::default()
        };
        let tracker = MemoryTracker::start(source.clone(), options).unwrap();
        let endpoint = PrometheusEndpoint::start(0, vec![source.clone()]).unwrap();
        let address = endpoint.address();
        let socket = file.with_extension(format!("{round}"));
        let options = LiveOptions { path: Some(socket.clone()), ..LiveOptions::default() };
        let live = LiveServer::start(source, options).unwrap();
        // The first line, and the first sample, which the tracker's thread writes.
        while std::fs::read_to_string(file).unwrap().lines().count() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let log = std::fs::read(file).unwrap();
        let mut held = Some((monitor, tracker, endpoint, live, pool));
        let ok = forked(|| {
            drop(held.take());
            true
        });
        assert!(ok, "round {round}");
        // The parent's resources are unchanged.
        assert_eq!(std::fs::read(file).unwrap(), log);
        assert!(socket.exists());
        let mut connection = std::net::TcpStream::connect(address).unwrap();
        let host = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        connection.write_all(host.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (monitor, tracker, ..) = held.as_ref().unwrap();
        assert!(monitor.is_running() && tracker.is_running());
        drop(held);
        assert!(!socket.exists());
        assert!(std::fs::read(file).unwrap().len() > log.len());
    }
}

/// Forks while other threads profile calls, look for leaks and enter phases, so their locks are sometimes held. The child drops the call,
/// the leak call and the phase that are open on the forking thread.
fn profiled(file: &Path) {
    let pool = new_pool();
    let source = PoolSource::new(&pool, 0).unwrap();
    let options = ProfilerOptions { find_leaks: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(source.clone(), options).unwrap();
    let leaks = LeakDetector::new(source.as_ref()).unwrap();
    let options = TrackerOptions {
        log: Some(LogFile::at(file)),
        interval: Duration::from_secs(3600),
        ..TrackerOptions::default()
    };
    let tracker = MemoryTracker::start(source, options).unwrap();
    let going = AtomicBool::new(true);
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while going.load(Ordering::Relaxed) {
                    let _phase = tracker.phase("step");
                    let _call = leaks.call("step");
                    profiler.profile_function("step", || drop(pool.malloc(5000)));
                }
            });
        }
        let mut failed = 0;
        for _ in 0..100 {
            // The parent leaks these each time: it must not drop them before the child does.
            let held = std::mem::ManuallyDrop::new((
                profiler.profile_context("forked"),
                leaks.call("forked"),
                tracker.phase("forked"),
            ));
            let child = || {
                drop(std::mem::ManuallyDrop::into_inner(held));
                true
            };
            failed += u32::from(!forked(child));
        }
        going.store(false, Ordering::Relaxed);
        assert_eq!(failed, 0);
    });
    // A child also drops a tracker that has no other owner.
    let mut held = Some((profiler, leaks, tracker));
    assert!(forked(|| {
        drop(held.take());
        true
    }));
}

#[test]
fn a_forked_child_may_drop_open_calls_and_phases() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    parent("profiled", &file);
    let log = std::fs::read_to_string(file).unwrap();
    let forked = |event: &str| {
        // Each phase lies inside the phases that leaked before it.
        let is_it = |line: &&str| line.contains(event) && line.contains("\"phase\":\"forked");
        log.lines().filter(is_it).count()
    };
    assert_eq!(
        (forked("phase_enter"), forked("phase_exit")),
        (100, 0),
        "a child wrote into its parent's log"
    );
}

#[test]
fn a_forked_child_may_drop_the_monitors_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    parent("watched", &folder.path().join("run.jsonl"));
}

#[test]
fn forking_while_others_allocate_hangs_no_child() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run");
    parent("busy", &file);
    let recording = formats::read(std::fs::File::open(&file).unwrap()).unwrap();
    // The parent leaks handles, so the file is not closed, but its contents are complete.
    assert_eq!(recording.notices.foreign_bytes, 0);
    let later = recording.trace.strings.find("later");
    assert_eq!(later, None, "a child wrote into its parent's recording");
}

#[test]
fn a_forked_child_may_drop_everything_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    parent("dropping", &folder.path().join("run"));
}
