//! Dumps of pools against PyTorch's schema of each release, which is independent of vramscope: `vramscope-trace/tests/schema`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use vramscope_allocator::{Enabled, HistoryOptions, MemoryPool, Policy, TorchRelease, VirtualDevice};
use vramscope_trace::formats;

use crate::{MIB, torch};

/// Differences between files, by their release, and the schema of that release.
fn differences(files: &BTreeMap<String, Vec<PathBuf>>) -> String {
    files.iter().map(|(release, files)| vramscope_testing::schema_differences(&[], release, files)).collect()
}

/// A program on the first of two devices: streams, a private pool, a pending free, a region, an out of memory.
fn run(pool: &MemoryPool, gpu: &VirtualDevice) -> impl Sized {
    let region = pool.annotate("train");
    let mut kept: Vec<_> = (1..50).map(|i| pool.malloc_on(i % 3, i * i * 1000).unwrap()).collect();
    let mut even = 0;
    kept.retain(|_| {
        even += 1;
        even % 2 == 0
    });
    let private = pool.private_pool();
    kept.push(private.malloc_on(0, 1000).unwrap());
    kept.push(pool.malloc(30 * MIB).unwrap());
    pool.malloc(600 * MIB).unwrap_err();
    gpu.set_busy(5, true);
    let waits = pool.malloc(3 * MIB).unwrap();
    waits.record_stream(5).unwrap();
    drop(waits);
    drop(region);
    (kept, private)
}

/// The recording options: no recording, all events, and live blocks only.
fn recorded() -> [Option<HistoryOptions>; 3] {
    let options = HistoryOptions::default;
    [
        None,
        Some(HistoryOptions { max_entries: 40, ..options() }),
        Some(HistoryOptions { enabled: Some(Enabled::State), ..options() }),
    ]
}

fn policies() -> Vec<(String, Policy)> {
    let releases = [(2, 6), (2, 8), (2, 10), (2, 11), (2, 12), (2, 13), (2, 15)];
    let mut policies: Vec<(String, Policy)> = Vec::new();
    for (major, minor) in releases {
        let release = TorchRelease::new(major, minor);
        for conf in [
            "",
            "expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:8]",
            "max_split_size_mb:64",
        ] {
            policies.push((release.to_string(), torch(conf, release)));
        }
    }
    // A policy without a release is written as the newest release.
    policies.push(("2.15".to_owned(), Policy::cupy()));
    policies
}

#[test]
fn dumps_of_pools_keep_to_the_schema_of_their_release() {
    let folder = tempfile::tempdir().unwrap();
    let mut dumps: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (number, (release, policy)) in policies().into_iter().enumerate() {
        for (how, options) in recorded().into_iter().enumerate() {
            let gpu = Arc::new(VirtualDevice::with_capacity(512 * MIB));
            let idle = Arc::new(VirtualDevice::with_capacity(512 * MIB));
            let pool = MemoryPool::new(&policy, vec![gpu.clone(), idle]).unwrap();
            if let Some(options) = options {
                pool.record_memory_history(&options).unwrap();
            }
            let _held = run(&pool, &gpu);
            let dump = folder.path().join(format!("{number}-{how}-{release}.pickle"));
            pool.dump_snapshot(&dump).unwrap();
            let bytes = std::fs::read(&dump).unwrap();
            let lists = formats::read(&bytes[..]).unwrap().trace.devices.len();
            assert_eq!(lists, 2, "one list per device, even if it is idle");
            dumps.entry(release.clone()).or_default().push(dump);
        }
    }
    let wrong = differences(&dumps);
    assert!(wrong.is_empty(), "{wrong}");
}

/// A log is read as a recording of its release, and written as one.
#[test]
fn logs_written_as_snapshots_keep_to_the_schema_of_their_release() {
    let folder = tempfile::tempdir().unwrap();
    let mut pickles: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (number, (release, policy)) in policies().into_iter().enumerate() {
        let gpu = Arc::new(VirtualDevice::with_capacity(512 * MIB));
        let idle = Arc::new(VirtualDevice::with_capacity(512 * MIB));
        let pool = MemoryPool::new(&policy, vec![gpu.clone(), idle]).unwrap();
        let log = folder.path().join(format!("{number}.log"));
        let options = HistoryOptions { stream_to: Some(log.clone()), ..HistoryOptions::default() };
        pool.record_memory_history(&options).unwrap();
        let held = run(&pool, &gpu);
        pool.record_memory_history(&HistoryOptions { enabled: None, ..HistoryOptions::default() }).unwrap();
        let trace = formats::read(std::fs::File::open(&log).unwrap()).unwrap().trace;
        let pickle = folder.path().join(format!("{number}-{release}.pickle"));
        formats::write_pickle(&trace, std::fs::File::create(&pickle).unwrap()).unwrap();
        pickles.entry(release).or_default().push(pickle);
        drop(held);
    }
    let wrong = differences(&pickles);
    assert!(wrong.is_empty(), "{wrong}");
}
