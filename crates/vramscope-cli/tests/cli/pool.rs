//! Recordings of our pool: the report equals the pool's counters.

use std::path::Path;
use std::sync::Arc;

use vramscope::allocator::Statistics;
use vramscope::prelude::*;

use crate::{json, run};

/// Runs a program on a pool with both kinds of recording; returns the pool's final counters.
fn record(policy: &Policy, pickle: &Path, stream: &Path) -> Statistics {
    let gpu = Arc::new(VirtualDevice::with_capacity(256 << 20));
    let pool = MemoryPool::new(policy, vec![gpu]).unwrap();
    let options = HistoryOptions { stream_to: Some(stream.to_owned()), ..HistoryOptions::default() };
    pool.record_memory_history(&options).unwrap();
    let mut kept = Vec::new();
    for i in 1..300u64 {
        let _region = pool.annotate("step");
        let block = pool.malloc_on(i % 2, i * i * 700 % (5 << 20) + 1).unwrap();
        if i % 9 == 0 {
            kept.push(block);
        }
    }
    pool.malloc(300 << 20).unwrap_err();
    pool.dump_snapshot(pickle).unwrap();
    let statistics = pool.statistics();
    pool.record_memory_history(&HistoryOptions { enabled: None, ..HistoryOptions::default() }).unwrap();
    statistics
}

#[test]
fn a_pools_recording_is_reported_exactly() {
    let settings = TorchSettings::default();
    let mut expandable = Policy::torch(&settings, TorchRelease::new(2, 11));
    expandable.expandable_segments = true;
    for policy in [Policy::cupy(), Policy::torch(&settings, TorchRelease::new(2, 11)), expandable] {
        let folder = tempfile::tempdir().unwrap();
        let [pickle, stream] = ["pool.pickle", "pool.vramscope"].map(|name| folder.path().join(name));
        let counted = record(&policy, &pickle, &stream);
        for file in [&pickle, &stream] {
            let file = file.to_str().unwrap();
            let report = json(&["report", file]);
            let device = &report["devices"][0];
            for (key, bytes) in [
                ("peak_requested_bytes", counted.requested.peak),
                ("peak_allocated_bytes", counted.allocated.peak),
                ("peak_active_bytes", counted.active.peak),
                ("peak_reserved_bytes", counted.reserved.peak),
                ("end_allocated_bytes", counted.allocated.current),
                ("end_reserved_bytes", counted.reserved.current),
            ] {
                assert_eq!(device[key].as_u64(), Some(bytes), "{key} of {file}, {}", policy.allocator);
            }
            assert_eq!(device["quality"]["exact"].as_bool(), Some(true), "{file}");
            assert_eq!(device["ooms"].as_array().unwrap().len(), 1);
            let text = run(&["report", file]);
            assert_eq!((text.status.code(), text.stderr.len()), (Some(0), 0));
            let text = String::from_utf8(text.stdout).unwrap();
            assert!(text.contains("Out of memory: a request of 300.00 MiB failed"), "{text}");
            assert!(text.contains("pool::record"), "{text}");
        }
    }
}
