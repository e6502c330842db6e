//! Bundles of runs that are out of memory.

use std::fs;
#[cfg(target_os = "linux")]
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use vramscope_allocator::{HistoryOptions, MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    BundleContext, FlightRecorder, FlightRecorderError, FlightRecorderOptions, MemoryTracker, PoolSource,
    TrackerOptions, out_of_memory_words,
};

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(1 << 30))]).unwrap()
}

/// Makes a request that fails.
fn fail(pool: &MemoryPool) {
    let _live = pool.malloc(600 << 20).unwrap();
    pool.malloc(700 << 20).unwrap_err();
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns all files below a folder and their sizes in bytes.
fn files_below(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.flat_map(|entry| match entry.metadata() {
        Ok(of) if of.is_dir() => files_below(&entry.path()),
        Ok(of) => vec![(entry.path(), of.len())],
        // Removed in the meantime.
        Err(_) => Vec::new(),
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

fn bytes_below(folder: &Path) -> u64 {
    files_below(folder).iter().map(|(_, bytes)| bytes).sum()
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn often() -> FlightRecorderOptions {
    FlightRecorderOptions { min_interval: Duration::ZERO, ..FlightRecorderOptions::default() }
}

#[test]
fn a_bundle_explains_the_failure_and_opens_as_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let options = TrackerOptions { interval: Duration::from_secs(3600), ..TrackerOptions::default() };
    let tracker = Arc::new(MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap());
    let options = FlightRecorderOptions { tracker: Some(tracker), ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path().join("dumps"), options).unwrap();
    fail(&pool);
    assert_eq!(recorder.last_error(), None);
    let bundles = recorder.bundles();
    assert_eq!(bundles.len(), 1);
    let bundle = &bundles[0];

    let manifest = json(&bundle.join("manifest.json"));
    assert_eq!(manifest["requested_bytes"], 700 << 20);
    assert_eq!(manifest["reserved_bytes"], 600 << 20);
    assert_eq!(manifest["device_free_bytes"], (1 << 30) - (600 << 20));
    let files = names(bundle);
    assert_eq!(
        files,
        [
            "environment.json",
            "events.json",
            "manifest.json",
            "metadata.json",
            "report.txt",
            "snapshot.pickle"
        ]
    );
    let mut listed: Vec<&str> =
        manifest["files"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(listed, files);

    let report = fs::read_to_string(bundle.join("report.txt")).unwrap();
    assert!(report.contains("a request of 700.00 MiB failed"), "{report}");
    assert!(report.contains("flight_recorder::fail"), "{report}");
    assert!(!report.contains('\x1b'));
    let rows = json(&bundle.join("events.json"));
    assert_eq!(rows[0]["event"], "start");
    assert!(rows.as_array().unwrap().len() >= 2, "{rows}");
    let environment = json(&bundle.join("environment.json"));
    assert_eq!(environment["devices"][0]["total_bytes"], 1 << 30);
    assert_eq!(environment["pid"], std::process::id());
    let snapshot = fs::File::open(bundle.join("snapshot.pickle")).unwrap();
    let recording = vramscope_trace::formats::read(snapshot).unwrap();
    assert!(recording.trace.devices[0].events.len() >= 3);

    drop(recorder);
    fail(&pool);
    assert_eq!(fs::read_dir(folder.path().join("dumps")).unwrap().count(), 1);
}

/// Independent of how long the four take.
#[test]
fn failures_within_the_interval_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let min_interval = Duration::from_secs(24 * 60 * 60);
    let options = FlightRecorderOptions { min_interval, ..FlightRecorderOptions::default() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    (0..4).for_each(|_| fail(&pool));
    assert_eq!(recorder.bundles().len(), 1);
}

#[test]
fn failures_in_quick_succession_are_counted_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let apart = Duration::from_millis(300);
    let options = FlightRecorderOptions { min_interval: apart, ..FlightRecorderOptions::default() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    (0..4).for_each(|_| fail(&pool));
    // Writing the first takes some time, so one or more failures are too soon.
    let soon = recorder.bundles().len();
    std::thread::sleep(apart);
    fail(&pool);
    let bundles = recorder.bundles();
    assert_eq!(bundles.len(), soon + 1);
    let skipped: u64 =
        bundles.iter().map(|b| json(&b.join("manifest.json"))["skipped_failures"].as_u64().unwrap()).sum();
    assert_eq!(skipped + bundles.len() as u64, 5);
}

#[test]
fn bundles_are_bounded_and_nothing_else_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    // Not a bundle, despite its name.
    let mine = folder.path().join("oom-notes");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("notes.txt"), "keep").unwrap();
    let pool = pool();
    let options = FlightRecorderOptions { max_bundles: 2, ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    (0..4).for_each(|_| fail(&pool));
    let bundles = recorder.bundles();
    assert_eq!(bundles.len(), 2);
    let (first, last) = (json(&bundles[0].join("manifest.json")), json(&bundles[1].join("manifest.json")));
    assert!(first["time_us"].as_i64() < last["time_us"].as_i64());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    assert!(mine.join("notes.txt").exists());
}

#[test]
fn a_bundle_that_is_too_large_leaves_its_snapshot_out_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let options = FlightRecorderOptions { max_total_bytes: 40 << 10, ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    let _blocks: Vec<_> = (0..400).map(|_| pool.malloc(1 << 10).unwrap()).collect();
    pool.malloc(2 << 30).unwrap_err();
    let bundle = &recorder.bundles()[0];
    assert!(!bundle.join("snapshot.pickle").exists());
    // The most informative small files exist.
    let report = fs::read_to_string(bundle.join("report.txt")).unwrap();
    assert!(report.contains("a request of 2.00 GiB failed"), "{report}");
    let manifest = json(&bundle.join("manifest.json"));
    let why = manifest["left_out"]["snapshot.pickle"].as_str().unwrap();
    assert_eq!(why, "the bundle would be larger than max_total_bytes");
    assert!(bytes_below(folder.path()) <= 40 << 10);
    // Many bundles together stay below the limit.
    (0..10).for_each(|_| drop(pool.malloc(2 << 30)));
    let total = bytes_below(folder.path());
    assert!(total <= 40 << 10, "{total}");
    assert_eq!(recorder.last_error(), None);
}

#[test]
fn a_folder_that_cannot_be_made_is_refused_and_one_that_is_gone_is_an_error() {
    let pool = pool();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = FlightRecorder::attach(&pool, file.join("dumps"), often());
    assert!(matches!(refused, Err(FlightRecorderError::Folder { .. })));
    let too_little = FlightRecorderOptions::LEAST_TOTAL_BYTES - 1;
    for nothing in [
        FlightRecorderOptions { max_bundles: 0, ..often() },
        FlightRecorderOptions { max_total_bytes: too_little, ..often() },
    ] {
        let Err(refused) = FlightRecorder::attach(&pool, folder.path(), nothing) else {
            panic!("there is no room")
        };
        assert!(matches!(refused, FlightRecorderError::NoRoom));
        assert!(refused.to_string().ends_with("max_total_bytes 32768 or more"), "{refused}");
    }

    let recorder = FlightRecorder::attach(&pool, folder.path().join("dumps"), often()).unwrap();
    fs::remove_dir_all(folder.path().join("dumps")).unwrap();
    fail(&pool);
    assert!(recorder.last_error().unwrap().contains("dumps"));
}

#[test]
fn recorders_of_one_folder_lose_no_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let pools = [pool(), pool()];
    let attach = |pool| FlightRecorder::attach(pool, folder.path(), often()).unwrap();
    let recorders = [attach(&pools[0]), attach(&pools[1])];
    for _ in 0..2 {
        for (pool, recorder) in pools.iter().zip(&recorders) {
            fail(pool);
            assert_eq!(recorder.last_error(), None);
        }
    }
    assert_eq!(recorders.map(|recorder| recorder.bundles().len()), [2, 2]);
}

/// Like the ranks of a job: all fail at the same instant, repeatedly.
#[test]
fn writers_at_the_same_time_lose_no_bundle_and_keep_the_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let options = || FlightRecorderOptions { max_bundles: 3, ..often() };
    let shared = (pool(), Barrier::new(4));
    let shared_recorder = FlightRecorder::attach(&shared.0, folder.path(), options()).unwrap();
    let errors: Vec<String> = std::thread::scope(|s| {
        let writers = [true, true, false, false].map(|alone| {
            let (folder, shared, shared_recorder) = (&folder, &shared, &shared_recorder);
            s.spawn(move || {
                let own = pool();
                let own_recorder = FlightRecorder::attach(&own, folder.path(), options()).unwrap();
                let (pool, recorder) =
                    if alone { (&own, &own_recorder) } else { (&shared.0, shared_recorder) };
                let failures = (0..15).map(|_| {
                    shared.1.wait();
                    pool.malloc(2 << 30).unwrap_err();
                    recorder.last_error()
                });
                failures.flatten().collect::<Vec<String>>()
            })
        });
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(errors, Vec::<String>::new());
    let left = names(folder.path());
    assert!(left.len() == 3 && left.iter().all(|name| name.starts_with("oom_dump_")), "{left:?}");
}

#[test]
fn leftovers_of_killed_writers_are_removed_and_unfinished_bundles_stay() {
    let folder = tempfile::tempdir().unwrap();
    let part = |name: &str| {
        let part = folder.path().join(name);
        fs::create_dir(&part).unwrap();
        fs::write(part.join("snapshot.pickle"), vec![0; 600 << 10]).unwrap();
        fs::File::open(part).unwrap()
    };
    let own = std::process::id();
    // No system assigns this process id.
    part(".oom-20200101T000000Z-4294967295-1.part");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(2 * 60 * 60);
    part(&format!(".oom_dump_20200101T000000Z_{own}_2.part")).set_modified(long_ago).unwrap();
    let written_now = format!(".oom_dump_20190101T000000Z_{own}_3.part");
    part(&written_now);
    // For example in another container, where processes have other ids.
    let elsewhere = ".oom_dump_20200101T000000Z_4294967295_4.part";
    let locked = part(elsewhere);
    locked.try_lock().unwrap();
    part(".oom-notes.part");
    let pool = pool();
    let options = FlightRecorderOptions { max_total_bytes: 2 << 20, ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    fail(&pool);
    assert_eq!(recorder.last_error(), None);
    let bundle = recorder.bundles()[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(names(folder.path()), [".oom-notes.part", written_now.as_str(), elsewhere, bundle.as_str()]);
}

#[test]
fn bundles_being_written_take_room() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join(format!(".oom-20200101T000000Z-{}-1.part", std::process::id()));
    fs::create_dir(&part).unwrap();
    fs::write(part.join("snapshot.pickle"), vec![0; 200 << 10]).unwrap();
    let pool = pool();
    let options = FlightRecorderOptions { max_total_bytes: 240 << 10, ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    let _blocks: Vec<_> = (0..400).map(|_| pool.malloc(1 << 10).unwrap()).collect();
    pool.malloc(2 << 30).unwrap_err();
    let manifest = json(&recorder.bundles()[0].join("manifest.json"));
    let why = manifest["left_out"]["snapshot.pickle"].as_str().unwrap();
    assert!(why.starts_with("other bundles are being written"), "{why}");
    assert!(recorder.bundles()[0].join("report.txt").exists());
}

#[test]
fn the_bytes_are_bounded_also_while_a_bundle_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let _blocks: Vec<_> = (0..400).map(|_| pool.malloc(1 << 10).unwrap()).collect();
    let most = 128 << 10;
    let options = FlightRecorderOptions { max_total_bytes: most, ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    let ready = Barrier::new(2);
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|s| {
        let looks = s.spawn(|| {
            ready.wait();
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                // A listing that changes in the meantime is not a consistent state.
                let files = files_below(folder.path());
                if files == files_below(folder.path()) {
                    seen = seen.max(files.iter().map(|(_, bytes)| bytes).sum());
                }
            }
            seen
        });
        ready.wait();
        let bundles = (0..20).map(|_| {
            pool.malloc(2 << 30).unwrap_err();
            recorder.bundles().last().map_or(0, |bundle| bytes_below(bundle))
        });
        // The bundles exceed the limit many times over.
        let written: u64 = bundles.sum();
        done.store(true, Ordering::Relaxed);
        assert!(written > 4 * most, "{written}");
        looks.join().unwrap()
    });
    assert!(seen <= most, "{seen}");
    assert_eq!(recorder.last_error(), None);
}

/// Creates a bundle in `folder/oom-1`.
#[cfg(target_os = "linux")]
fn bundle_in(folder: &Path) -> PathBuf {
    let elsewhere = tempfile::tempdir_in("/tmp").unwrap();
    let pool = pool();
    let recorder = FlightRecorder::attach(&pool, elsewhere.path(), often()).unwrap();
    fail(&pool);
    let bundle = &recorder.bundles()[0];
    fs::rename(bundle, folder.join("oom-1")).unwrap();
    folder.join("oom-1")
}

#[cfg(target_os = "linux")]
#[test]
fn a_bundle_that_cannot_be_created_removes_none() {
    let outer = tempfile::tempdir_in("/tmp").unwrap();
    let [folder, moved] = ["bundles", "moved"].map(|name| outer.path().join(name));
    fs::create_dir(&folder).unwrap();
    bundle_in(&folder);
    let pool = pool();
    let options = FlightRecorderOptions { max_bundles: 1, ..often() };
    let recorder = FlightRecorder::attach(&pool, &folder, options).unwrap();
    // A file replaces the folder.
    fs::rename(&folder, &moved).unwrap();
    fs::write(&folder, "").unwrap();
    (0..3).for_each(|_| fail(&pool));
    let error = recorder.last_error().unwrap();
    assert!(error.contains("a directory"), "{error}");
    assert!(moved.join("oom-1/manifest.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_bundle_that_cannot_be_removed_is_named_and_the_new_one_written() {
    if rustix::process::geteuid().is_root() {
        // Permissions do not stop root.
        return vramscope_testing::skip("user", "the folder of a bundle that this user cannot empty");
    }
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let folder = folder.path().to_owned();
    let old = bundle_in(&folder);
    let kept = old.join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "").unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o555)).unwrap();
    let pool = pool();
    let options = FlightRecorderOptions { max_bundles: 1, ..often() };
    let recorder = FlightRecorder::attach(&pool, &folder, options).unwrap();
    for _ in 0..3 {
        fail(&pool);
        let error = recorder.last_error().unwrap();
        assert!(error.starts_with(old.to_str().unwrap()) && error.contains("ermission denied"), "{error}");
        assert_eq!(recorder.bundles().len(), 1);
    }
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Each written bundle counts the previous failures without a bundle.
#[test]
fn failures_whose_bundle_is_lost_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let pool = pool();
    let recorder = FlightRecorder::attach(&pool, &dumps, often()).unwrap();
    fs::remove_dir_all(&dumps).unwrap();
    (0..3).for_each(|_| fail(&pool));
    assert!(recorder.last_error().is_some());
    fs::create_dir(&dumps).unwrap();
    fail(&pool);
    assert_eq!(json(&recorder.bundles()[0].join("manifest.json"))["skipped_failures"], 3);
}

#[test]
fn a_history_that_is_recorded_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let stream = folder.path().join("run.vramscope");
    let pool = pool();
    let options = HistoryOptions { stream_to: Some(stream.clone()), ..HistoryOptions::default() };
    pool.record_memory_history(&options).unwrap();
    drop(pool.malloc(512).unwrap());
    let options = FlightRecorderOptions { max_entries: Some(1), ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path().join("dumps"), options).unwrap();
    fail(&pool);
    let events = pool.snapshot().unwrap().devices[0].events.len();
    assert!(events > 5, "{events}");
    // The recording belongs to the program, and continues after the recorder is dropped.
    drop(recorder);
    drop(pool);
    let streamed = vramscope_trace::formats::read(fs::File::open(&stream).unwrap()).unwrap();
    // A snapshot is an event only in the pool's history.
    assert!(streamed.trace.devices[0].events.len() >= events - 1);
}

#[test]
fn an_error_that_the_pool_did_not_raise_has_a_bundle_with_its_context() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let recorder = FlightRecorder::attach(&pool, folder.path(), often()).unwrap();
    let _live = pool.malloc(600 << 20).unwrap();
    let context =
        BundleContext::new("matmul").with("batch", 17).with("model", "gpt \u{7}\u{9b}\u{7f}\u{202e} \"x\"");
    let error: Result<u32, String> =
        recorder.capture_oom(context, || Err("cuBLAS: CUBLAS_STATUS_ALLOC_FAILED".to_owned()));
    assert_eq!(error.unwrap_err(), "cuBLAS: CUBLAS_STATUS_ALLOC_FAILED");
    let [bundle] = &recorder.bundles()[..] else { panic!("{:?}", recorder.bundles()) };
    let metadata = json(&bundle.join("metadata.json"));
    assert_eq!(
        metadata,
        serde_json::json!({
            "reason": "alloc_failed",
            "exception_message": "cuBLAS: CUBLAS_STATUS_ALLOC_FAILED",
            "context": "matmul",
            "custom_metadata": {"batch": "17", "model": "gpt \u{7}\u{9b}\u{7f}\u{202e} \"x\""},
        })
    );
    let manifest = json(&bundle.join("manifest.json"));
    assert_eq!(manifest["reason"], "alloc_failed");
    assert_eq!(manifest["requested_bytes"], serde_json::Value::Null);
    // Every JSON reader sees the same text, and terminals are not affected.
    for path in ["metadata.json", "manifest.json", "environment.json"] {
        let text = fs::read_to_string(bundle.join(path)).unwrap();
        assert!(!text.chars().any(|c| "\u{9b}\u{202e}\u{7f}".contains(c)), "{text}");
    }
    assert!(bundle.join("snapshot.pickle").exists() && bundle.join("report.txt").exists());
}

#[test]
fn only_errors_about_memory_get_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let recorder = FlightRecorder::attach(&pool, folder.path(), often()).unwrap();
    let context = || BundleContext::new("step");
    assert_eq!(recorder.capture_oom(context(), || Ok::<_, String>(7)), Ok(7));
    assert_eq!(recorder.capture_oom(context(), || Err::<(), _>("no such layer")), Err("no such layer"));
    assert_eq!(recorder.handle_error(&"the shapes differ"), None);
    assert_eq!(recorder.bundles(), Vec::<PathBuf>::new());
    for message in [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "HIP OUT OF MEMORY",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "RESOURCE EXHAUSTED: OOM",
        "failed to allocate workspace",
        "memory allocation of 17 bytes failed",
        "std::bad_alloc",
    ] {
        assert!(out_of_memory_words(message).is_some(), "{message}");
    }
}

/// The pool's bundle is written before unwinding. The error then passes the capture, which writes no second bundle.
#[test]
fn an_error_of_the_pool_has_one_bundle_with_the_contexts_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let recorder = FlightRecorder::attach(&pool, folder.path(), often()).unwrap();
    let outer = BundleContext::new("epoch").with("epoch", 3).with("batch", 0);
    let error = recorder.capture_oom(outer, || {
        let inner = BundleContext::new("forward").with("batch", 17);
        recorder.capture_oom(inner, || pool.malloc(2 << 30).map_err(|e| format!("step failed: {e}")))
    });
    assert!(error.unwrap_err().starts_with("step failed: Out of memory"));
    let [bundle] = &recorder.bundles()[..] else { panic!("{:?}", recorder.bundles()) };
    let metadata = json(&bundle.join("metadata.json"));
    assert_eq!(metadata["context"], "forward");
    assert_eq!(metadata["custom_metadata"], serde_json::json!({"batch": "17", "epoch": "3"}));
    assert_eq!(json(&bundle.join("manifest.json"))["requested_bytes"], 2u64 << 30);
    // Outside the captures there is no context, and other threads have none.
    fail(&pool);
    let none = json(&recorder.bundles()[1].join("metadata.json"));
    assert_eq!(
        (&none["context"], &none["custom_metadata"]),
        (&serde_json::Value::Null, &serde_json::json!({}))
    );
}

#[test]
fn an_out_of_memory_panic_gets_a_bundle_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let recorder = FlightRecorder::attach(&pool, folder.path(), often()).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        recorder
            .capture_oom(BundleContext::new("step"), || -> Result<(), String> { panic!("HIP out of memory") })
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"HIP out of memory"));
    assert_eq!(json(&recorder.bundles()[0].join("metadata.json"))["context"], "step");
    // The capture is closed.
    let bundle = recorder.handle_error(&"out of memory, later").unwrap();
    assert_eq!(json(&bundle.join("metadata.json"))["context"], serde_json::Value::Null);
}

#[test]
fn a_bundle_is_written_on_demand_whatever_the_time_since_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let rarely = FlightRecorderOptions { min_interval: Duration::from_secs(3600), ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), rarely).unwrap();
    fail(&pool);
    assert_eq!(recorder.handle_error(&"another out of memory"), None, "too soon: counted");
    let context = BundleContext::new("a user pressed a key").with("key", 'd');
    let bundle = recorder.dump("on demand", context).unwrap();
    let manifest = json(&bundle.join("manifest.json"));
    assert_eq!((&manifest["reason"], &manifest["error"]), (&"on demand".into(), &serde_json::Value::Null));
    assert_eq!(manifest["skipped_failures"], 1);
    assert_eq!(json(&bundle.join("metadata.json"))["custom_metadata"]["key"], "d");
    assert_eq!(recorder.bundles().len(), 2);
    drop(pool);
    assert!(matches!(recorder.dump("too late", BundleContext::default()), Err(FlightRecorderError::NoPool)));
}

/// A manifest has room for 8 KiB; an error may be longer.
#[test]
fn long_errors_and_contexts_do_not_cost_the_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let options = FlightRecorderOptions { max_total_bytes: 256 << 10, ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    let long = format!("out of memory {}", "\u{1}\u{10ffff}".repeat(5000));
    let bundle = recorder.handle_error(&long).unwrap();
    assert_eq!(json(&bundle.join("metadata.json"))["exception_message"], long);
    let said = json(&bundle.join("manifest.json"))["error"].as_str().unwrap().to_owned();
    assert!(said.ends_with('…') && long.starts_with(said.trim_end_matches('…')), "{said}");
    // The context exceeds the folder's limit: the other files are written, and the manifest lists the missing one.
    let huge = BundleContext::new("step").with("notes", "x".repeat(300 << 10));
    let bundle = recorder.dump("on demand", huge).unwrap();
    let left_out = &json(&bundle.join("manifest.json"))["left_out"];
    assert!(left_out["metadata.json"].is_string(), "{left_out}");
    assert!(bundle.join("report.txt").exists());
    assert!(bytes_below(folder.path()) <= 256 << 10);
}

#[test]
fn a_history_of_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = FlightRecorderOptions { max_entries: Some(0), ..FlightRecorderOptions::default() };
    let error = FlightRecorder::attach(&pool(), folder.path(), nothing).err().unwrap();
    assert_eq!(
        error.to_string(),
        "max_entries is 0, so no event would be kept; set it to 1 or more, or set a file to stream to"
    );
}
