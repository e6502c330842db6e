//! A recording's file has one writer at a time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use vramscope_allocator::{HistoryError, HistoryOptions, MemoryPool};
use vramscope_trace::formats;

use crate::torch_2_11;

/// The child's output file; set only by the parent.
const FILE: &str = "VRAMSCOPE_TEST_EXCLUSIVE";

fn pool() -> MemoryPool {
    MemoryPool::on_host(torch_2_11(), 1 << 30).unwrap()
}

fn stream_to(pool: &MemoryPool, file: &Path) -> Result<(), HistoryError> {
    let options = HistoryOptions { stream_to: Some(file.to_owned()), ..HistoryOptions::default() };
    pool.record_memory_history(&options)
}

fn read(file: &Path) -> formats::Recording {
    formats::read(std::fs::File::open(file).unwrap()).unwrap()
}

fn is_busy(result: Result<(), HistoryError>) -> bool {
    matches!(result, Err(HistoryError::Busy { .. }))
}

/// The child process: allocates until it is killed. Without the variable it does nothing.
#[test]
fn child() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let pool = pool();
    stream_to(&pool, Path::new(&file)).unwrap();
    loop {
        drop(pool.malloc(1000).unwrap());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A second writer fails, under any name of the file, and the first writer's recording is complete.
#[test]
fn a_second_writer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run");
    let mut names = vec![file.clone()];
    #[cfg(unix)]
    {
        let named = |name: &str| -> PathBuf { folder.path().join(name) };
        std::os::unix::fs::symlink("run", named("soft")).unwrap();
        names.push(named("soft"));
        std::fs::write(&file, "").unwrap();
        std::fs::hard_link(&file, named("hard")).unwrap();
        names.push(named("hard"));
    }
    let (first, second) = (pool(), pool());
    stream_to(&first, &file).unwrap();
    let kept = first.malloc(1000).unwrap();
    for name in &names {
        for pool in [&first, &second] {
            let error = stream_to(pool, name).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{}: another recording writes to this file; choose another name", name.display())
            );
        }
    }
    drop(kept);
    drop(first);
    assert_eq!(read(&file).trace.devices[0].events.len(), 5);
    assert!(!read(&file).notices.unclosed);
    // After the first recording ends, the file is unlocked, and its previous contents are replaced.
    stream_to(&second, &file).unwrap();
    assert!(is_busy(stream_to(&pool(), &file)));
    drop(second);
    assert_eq!(read(&file).trace.devices[0].events.len(), 0);
    assert_eq!(read(&file).notices, vramscope_trace::Notices::default());
}

/// Of several recordings that start at the same time, one writes, and all others fail.
#[test]
fn only_one_of_several_recordings_that_start_at_once_writes() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let file = folder.path().join(format!("{round}"));
        let pools: Vec<MemoryPool> = (0..4).map(|_| pool()).collect();
        std::thread::scope(|s| {
            for pool in &pools {
                let file = &file;
                s.spawn(move || {
                    let result = stream_to(pool, file);
                    drop(pool.malloc(1000).unwrap());
                    assert!(result.is_ok() || is_busy(result));
                });
            }
        });
        let writers = pools
            .iter()
            .filter(|pool| pool.is_recording_history() && is_busy(stream_to(pool, &file)))
            .count();
        assert_eq!(writers, 1);
        drop(pools);
        let recording = read(&file);
        assert_eq!(recording.notices, vramscope_trace::Notices::default());
        assert_eq!(recording.trace.devices[0].events.len(), 5);
    }
}

/// Another process locks the file. Killing that process unlocks it, like ending it.
#[test]
fn a_file_locked_by_another_process_is_free_after_that_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["stream::child", "--exact"])
        .env(FILE, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !std::fs::metadata(&file).is_ok_and(|m| m.len() > 1000) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pool = pool();
    assert!(is_busy(stream_to(&pool, &file)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!read(&file).trace.devices[0].events.is_empty());
    stream_to(&pool, &file).unwrap();
    drop(pool);
    assert_eq!(read(&file).notices, vramscope_trace::Notices::default());
}

/// A longer existing file leaves no bytes behind.
#[test]
fn a_file_that_was_there_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run");
    std::fs::write(&file, vec![0xff; 1 << 20]).unwrap();
    let pool = pool();
    stream_to(&pool, &file).unwrap();
    drop(pool);
    assert_eq!(read(&file).notices, vramscope_trace::Notices::default());
}

/// If the file is removed or replaced, the recording fails with an error, and the replacement is left unchanged.
#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_meanwhile_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for replaced in [true, false] {
        let (file, other) = (folder.path().join("run"), folder.path().join("other"));
        let pool = pool();
        stream_to(&pool, &file).unwrap();
        drop(pool.malloc(1000).unwrap());
        if replaced {
            std::fs::write(&other, "mine").unwrap();
            std::fs::rename(&other, &file).unwrap();
        } else {
            std::fs::remove_file(&file).unwrap();
        }
        let end = HistoryOptions { enabled: None, ..HistoryOptions::default() };
        let error = pool.record_memory_history(&end).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{}: the file was removed or replaced while it was written", file.display())
        );
        assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), replaced.then_some("mine"));
    }
}

/// Devices are not locked.
#[cfg(unix)]
#[test]
fn devices_such_as_dev_null_are_not_locked() {
    let (first, second) = (pool(), pool());
    for pool in [&first, &second] {
        stream_to(pool, Path::new("/dev/null")).unwrap();
        drop(pool.malloc(1000).unwrap());
    }
}
