//! What is left of a run that was out of memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vramscope_allocator::{MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    FlightRecorder, FlightRecorderError, FlightRecorderOptions, MemoryTracker, PoolSource, TrackerOptions,
};

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(1 << 30))]).unwrap()
}

/// Asks for more than there is.
fn fail(pool: &MemoryPool) {
    let _live = pool.malloc(600 << 20).unwrap();
    pool.malloc(700 << 20).unwrap_err();
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
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
    let mut files: Vec<String> = fs::read_dir(bundle)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["environment.json", "log.jsonl", "manifest.json", "report.txt", "snapshot.pickle"]);
    let mut listed: Vec<&str> =
        manifest["files"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(listed, files);

    let report = fs::read_to_string(bundle.join("report.txt")).unwrap();
    assert!(report.contains("a request of 700.00 MiB failed"), "{report}");
    assert!(report.contains("flight_recorder::fail"), "{report}");
    assert!(!report.contains('\x1b'));
    let environment = json(&bundle.join("environment.json"));
    assert_eq!(environment["devices"][0]["total_bytes"], 1 << 30);
    assert_eq!(environment["pid"], std::process::id());
    let snapshot = fs::File::open(bundle.join("snapshot.pickle")).unwrap();
    let recording = vramscope_trace::formats::read(snapshot, &mut |_| {}).unwrap();
    assert!(recording.trace.devices[0].events.len() >= 3);

    drop(recorder);
    fail(&pool);
    assert_eq!(fs::read_dir(folder.path().join("dumps")).unwrap().count(), 1);
}

#[test]
fn failures_in_quick_succession_are_counted_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool();
    let apart = Duration::from_millis(300);
    let options = FlightRecorderOptions { min_interval: apart, ..FlightRecorderOptions::default() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    (0..4).for_each(|_| fail(&pool));
    // Writing the first took its time: one or more came too soon.
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
    // Not a bundle, whatever its name says.
    let mine = folder.path().join("oom-notes");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("notes.txt"), "keep").unwrap();
    let pool = pool();
    let options = FlightRecorderOptions { max_bundles: 2, ..often() };
    let recorder = FlightRecorder::attach(&pool, folder.path(), options).unwrap();
    (0..4).for_each(|_| fail(&pool));
    let bundles = recorder.bundles();
    assert_eq!(bundles.len(), 2);
    assert!(bundles[1].ends_with(format!("{}-4", bundles[1].to_str().unwrap().rsplit_once('-').unwrap().0)));
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
    let manifest = json(&bundle.join("manifest.json"));
    let why = manifest["left_out"]["snapshot.pickle"].as_str().unwrap();
    assert_eq!(why, "the bundle would be larger than max_total_bytes");
    let bytes: u64 = fs::read_dir(bundle).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 40 << 10, "{bytes}");
    // Many of them stay below the bound together.
    (0..10).for_each(|_| drop(pool.malloc(2 << 30)));
    let total: u64 = recorder
        .bundles()
        .iter()
        .flat_map(|bundle| fs::read_dir(bundle).unwrap())
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
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
    let nothing = FlightRecorderOptions { max_bundles: 0, ..often() };
    assert!(matches!(
        FlightRecorder::attach(&pool, folder.path(), nothing),
        Err(FlightRecorderError::NoRoom)
    ));

    let recorder = FlightRecorder::attach(&pool, folder.path().join("dumps"), often()).unwrap();
    fs::remove_dir_all(folder.path().join("dumps")).unwrap();
    fail(&pool);
    assert!(recorder.last_error().unwrap().contains("dumps"));
}
