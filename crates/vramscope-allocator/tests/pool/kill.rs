//! A program that is killed in the middle of a streamed recording.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vramscope_allocator::{HistoryOptions, MemoryPool};
use vramscope_trace::formats::Recording;
use vramscope_trace::{Action, formats};

use crate::{MIB, torch_2_11};

/// The child's output file; set only by the parent.
const FILE: &str = "VRAMSCOPE_TEST_STREAM";

/// The child process: allocates until it is killed. Without the variable it does nothing.
#[test]
fn child() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let pool = MemoryPool::on_host(torch_2_11(), 1 << 30).unwrap();
    let options =
        HistoryOptions { stream_to: Some(file.into()), max_entries: 100, ..HistoryOptions::default() };
    pool.record_memory_history(&options).unwrap();
    let mut kept = Vec::new();
    for i in 0u64.. {
        kept.push(pool.malloc(1 + i * 7919 % MIB).unwrap());
        if kept.len() > 100 {
            kept.clear();
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// After kill -9, the file is readable and contains all but the last second.
#[test]
fn a_killed_program_loses_at_most_the_last_second() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.vramscope");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["kill::child", "--exact"])
        .env(FILE, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Stacks are resolved at run time, which takes longer on a busy machine.
    let started = Instant::now();
    while !formats::read(std::fs::File::open(&file).unwrap())
        .is_ok_and(|recording| has_run(&recording) && names_the_program(&recording))
    {
        assert!(started.elapsed() < Duration::from_secs(120), "no stack was resolved");
        std::thread::sleep(Duration::from_millis(100));
    }
    // SIGKILL: the program cannot react.
    child.kill().unwrap();
    let killed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    child.wait().unwrap();
    check(&file, killed);
}

/// Whether the first and last event are more than a second apart.
fn has_run(recording: &Recording) -> bool {
    let events = recording.trace.devices.first().into_iter().flat_map(|device| device.events.iter());
    let times: Vec<i64> = events.map(|e| e.time_us.unwrap()).collect();
    times.first().zip(times.last()).is_some_and(|(first, last)| last - first > 1_000_000)
}

fn names_the_program(recording: &Recording) -> bool {
    let trace = &recording.trace;
    let mut events = trace.devices.first().into_iter().flat_map(|device| device.events.iter());
    let Some(stack) = events.find_map(|e| e.stack) else { return false };
    let mut frames = trace.stacks.get(stack).iter();
    frames.any(|&f| trace.strings.get(trace.frames.get(f).name).contains("kill::child"))
}

fn check(file: &Path, killed: i64) {
    let recording = formats::read(std::fs::File::open(file).unwrap()).unwrap();
    let device = &recording.trace.devices[0];
    let times: Vec<i64> = device.events.iter().map(|e| e.time_us.unwrap()).collect();
    let last = *times.last().unwrap();
    assert!(killed - last < 1_000_000, "the last {} us are lost", killed - last);
    assert!(has_run(&recording));
    assert!(times.is_sorted());
    assert!(recording.notices.unclosed);
    // The end state is that after the last event: the live allocations.
    let mut live = std::collections::BTreeSet::new();
    for event in device.events.iter() {
        match event.action {
            Action::Alloc => assert!(live.insert(event.address())),
            Action::FreeCompleted => assert!(live.remove(&event.address())),
            _ => {}
        }
    }
    let active: std::collections::BTreeSet<u64> =
        device.blocks.iter().filter(|b| b.state.is_active()).map(|b| b.address).collect();
    assert_eq!(active, live);
    assert!(names_the_program(&recording));
}
