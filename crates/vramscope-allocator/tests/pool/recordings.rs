//! Real PyTorch ran these programs and counted. Our pool runs the same requests and must give the same counts.

mod data {
    use std::collections::HashMap;
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::Value;
    use vramscope_allocator::{AllocError, Allocation, MemoryPool, Statistics, TorchRelease, VirtualDevice};
    use vramscope_trace::{Action, BlockState, DeviceTrace, SegmentKind, Trace, formats};

    use crate::torch;

    /// Parses the release in a file name, as in `gpt2-torch2.11-default.pickle`.
    fn release(name: &str) -> TorchRelease {
        let release = name.split("-torch").nth(1).unwrap().split('-').next().unwrap();
        let (major, minor) = release.split_once('.').unwrap();
        TorchRelease::new(major.parse().unwrap(), minor.parse().unwrap())
    }

    /// Runs the requests of a recording and returns the pool's statistics and `memory_summary`.
    fn run(truth: &Value, device: &DeviceTrace) -> (Statistics, String) {
        let number = |key: &str| truth[key].as_u64().unwrap();
        let capacity = number("device_capacity");
        let gpu = VirtualDevice::with_capacity(capacity).with_used(capacity - number("device_free_at_start"));
        let policy = torch(truth["conf"].as_str().unwrap(), release(truth["file"].as_str().unwrap()));
        let pool = MemoryPool::new(&policy, vec![Arc::new(gpu)]).unwrap();
        let mut live: HashMap<u64, Allocation> = HashMap::new();
        for event in device.events.iter() {
            match event.action {
                Action::Alloc => {
                    live.insert(event.address(), pool.malloc(event.size).unwrap());
                }
                Action::FreeCompleted => {
                    drop(live.remove(&event.address()).unwrap());
                }
                Action::Oom => {
                    // The event has the rounded size of the failed request.
                    assert!(matches!(pool.malloc(event.size), Err(AllocError::OutOfMemory(_))));
                }
                _ => {}
            }
        }
        (pool.statistics(), pool.memory_summary(false))
    }

    /// Compares a summary's current values with PyTorch's end state by pool, and describes each difference.
    fn wrong_rows(summary: &str, device: &DeviceTrace) -> Vec<String> {
        let mut wrong = Vec::new();
        let pools = [("all", None), ("large", Some(SegmentKind::Large)), ("small", Some(SegmentKind::Small))];
        for (place, (pool, kind)) in pools.into_iter().enumerate() {
            let of_pool = || device.segments.iter().filter(move |s| kind.is_none_or(|kind| s.kind == kind));
            let blocks = || of_pool().flat_map(|s| &device.blocks[s.blocks.clone()]);
            let split = || {
                let split = of_pool().filter(|s| s.is_expandable != Some(true) && s.blocks.len() > 1);
                split.flat_map(|s| &device.blocks[s.blocks.clone()]).filter(|b| !b.state.is_active())
            };
            let allocated = || blocks().filter(|b| b.state == BlockState::ActiveAllocated);
            let active = || blocks().filter(|b| b.state.is_active());
            let expected = [
                ("Allocated memory", allocated().map(|b| b.size).sum::<u64>()),
                ("Active memory", active().map(|b| b.size).sum()),
                ("Requested memory", active().map(|b| b.requested_size).sum()),
                ("GPU reserved memory", of_pool().map(|s| s.total_size).sum()),
                ("Non-releasable memory", split().map(|b| b.size).sum()),
                ("Allocations", allocated().count() as u64),
                ("Active allocs", active().count() as u64),
                ("Non-releasable allocs", split().count() as u64),
            ];
            for (name, number) in expected {
                let first = summary.lines().position(|line| line.starts_with(&format!("| {name} "))).unwrap();
                let cell = summary.lines().nth(first + place).unwrap().split('|').nth(2).unwrap();
                let mut words = cell.split_whitespace();
                let shown: u64 = words.next().unwrap().parse().unwrap();
                let unit = match words.next() {
                    Some("KiB") => 1 << 10,
                    Some("MiB") => 1 << 20,
                    Some("GiB") => 1 << 30,
                    _ => 1,
                };
                if shown != number / unit {
                    wrong.push(format!("{name}, {pool}: {number}, ours {shown} of {unit}"));
                }
            }
        }
        wrong
    }

    fn read(path: &Path) -> Arc<Trace> {
        formats::read(std::fs::File::open(path).unwrap()).unwrap().trace
    }

    #[test]
    fn the_pool_counts_what_pytorch_counted() {
        let Some(data) = vramscope_testing::recordings() else { return };
        let folder = data.join("phantom");
        let truth = std::fs::read_to_string(folder.join("truth.jsonl")).unwrap();
        let mut wrong = Vec::new();
        let mut compared = 0;
        for truth in truth.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let file = truth["file"].as_str().unwrap();
            // Skip partial recordings, and several streams or pools, which a recording does not describe completely.
            let left_out = ["late", "max-entries", "streams", "mempool"];
            if left_out.iter().any(|part| file.contains(part)) {
                continue;
            }
            let trace = read(&folder.join(file));
            let (counted, summary) = run(&truth, &trace.devices[0]);
            wrong.extend(wrong_rows(&summary, &trace.devices[0]).iter().map(|row| format!("{file}: {row}")));
            let expandable = truth["conf"].as_str().unwrap().contains("expandable_segments:True");
            let mut expected = vec![
                ("peak_requested", counted.requested.peak),
                ("peak_allocated", counted.allocated.peak),
                ("peak_active", counted.active.peak),
                ("peak_reserved", counted.reserved.peak),
                ("end_reserved", counted.reserved.current),
                ("num_alloc_retries", counted.num_alloc_retries),
                ("num_ooms", counted.num_ooms),
                ("allocations", counted.num_allocations),
            ];
            if !expandable {
                // PyTorch does not count mapped ranges.
                expected.push(("segments_allocated", counted.segments_allocated));
                expected.push(("segments_freed", counted.segments_freed));
            }
            for (key, ours) in expected {
                if truth[key].as_u64() != Some(ours) {
                    wrong.push(format!("{file}: {key} is {}, ours {ours}", truth[key]));
                }
            }
            compared += 1;
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(compared >= 40, "{compared} recordings");
    }
}
