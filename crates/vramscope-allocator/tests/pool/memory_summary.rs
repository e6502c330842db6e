//! `torch.cuda.memory_summary`: the layout of `torch/cuda/memory.py`, with numbers computed by hand.

use std::sync::Arc;

use vramscope_allocator::{MemoryPool, Policy, TorchRelease, VirtualDevice};

use crate::{MIB, torch, torch_2_11};

fn pool_of(policy: &Policy, capacity: u64) -> MemoryPool {
    MemoryPool::new(policy, vec![Arc::new(VirtualDevice::with_capacity(capacity))]).unwrap()
}

/// 1,000 bytes are a block of 1 KiB in a small segment of 2 MiB. 5 MiB are split from a segment of 20 MiB. 30 MiB have their own segment,
/// which is released when a request of 2 GiB fails.
#[test]
fn the_table_is_pytorchs() {
    let pool = pool_of(&torch_2_11(), 1024 * MIB);
    let small = pool.malloc(1000).unwrap();
    let large = pool.malloc(5 * MIB).unwrap();
    drop(pool.malloc(30 * MIB).unwrap());
    pool.malloc(2048 * MIB).unwrap_err();
    let expected = "\
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 1            |        cudaMalloc retries: 1         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |   5121 KiB |  35841 KiB |  35841 KiB |  30720 KiB |
|       from large pool |   5120 KiB |    n/a     |  35840 KiB |  30720 KiB |
|       from small pool |      1 KiB |      1 KiB |      1 KiB |      0 KiB |
|---------------------------------------------------------------------------|
| Active memory         |   5121 KiB |  35841 KiB |  35841 KiB |  30720 KiB |
|       from large pool |   5120 KiB |    n/a     |  35840 KiB |  30720 KiB |
|       from small pool |      1 KiB |      1 KiB |      1 KiB |      0 KiB |
|---------------------------------------------------------------------------|
| Requested memory      |   5120 KiB |  35840 KiB |  35840 KiB |  30720 KiB |
|       from large pool |   5120 KiB |    n/a     |  35840 KiB |  30720 KiB |
|       from small pool |      0 KiB |      0 KiB |      0 KiB |      0 KiB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |  22528 KiB |  53248 KiB |  53248 KiB |  30720 KiB |
|       from large pool |  20480 KiB |  51200 KiB |  51200 KiB |  30720 KiB |
|       from small pool |   2048 KiB |   2048 KiB |   2048 KiB |      0 KiB |
|---------------------------------------------------------------------------|
| Non-releasable memory |  17407 KiB |    n/a     |    n/a     |    n/a     |
|       from large pool |  15360 KiB |    n/a     |    n/a     |    n/a     |
|       from small pool |   2047 KiB |    n/a     |    n/a     |    n/a     |
|---------------------------------------------------------------------------|
| Allocations           |       2    |    n/a     |       3    |       1    |
|       from large pool |       1    |    n/a     |       2    |       1    |
|       from small pool |       1    |       1    |       1    |       0    |
|---------------------------------------------------------------------------|
| Active allocs         |       2    |    n/a     |       3    |       1    |
|       from large pool |       1    |    n/a     |       2    |       1    |
|       from small pool |       1    |       1    |       1    |       0    |
|---------------------------------------------------------------------------|
| GPU reserved segments |       2    |       3    |       3    |       1    |
|       from large pool |       1    |       2    |       2    |       1    |
|       from small pool |       1    |       1    |       1    |       0    |
|---------------------------------------------------------------------------|
| Non-releasable allocs |       2    |    n/a     |    n/a     |    n/a     |
|       from large pool |       1    |    n/a     |    n/a     |    n/a     |
|       from small pool |       1    |    n/a     |    n/a     |    n/a     |
|---------------------------------------------------------------------------|
| Oversize allocations  |       0    |       0    |       0    |       0    |
|---------------------------------------------------------------------------|
| Oversize GPU segments |       0    |       0    |       0    |       0    |
|===========================================================================|
";
    assert_eq!(pool.memory_summary(false), expected);
    let abbreviated: String =
        expected.lines().filter(|line| !line.contains("from ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(pool.memory_summary(true), abbreviated);
    pool.reset_peak_stats();
    let reset = pool.memory_summary(false);
    for row in [
        "| Allocated memory      |   5121 KiB |   5121 KiB |  35841 KiB |  30720 KiB |",
        "|       from large pool |  20480 KiB |  20480 KiB |  51200 KiB |  30720 KiB |",
        "| GPU reserved segments |       2    |       2    |       3    |       1    |",
    ] {
        assert!(reset.contains(row), "{row}\n{reset}");
    }
    drop((small, large));
}

/// A pool with one class of blocks has peaks of that class; blocks of `max_split_size` and more are oversize.
#[test]
fn the_summary_has_the_peaks_of_the_only_class_of_blocks() {
    let cupy = pool_of(&Policy::cupy(), 64 * MIB);
    drop(cupy.malloc(MIB).unwrap());
    let summary = cupy.memory_summary(false);
    assert!(
        summary.contains("|       from large pool |      0 B   |   1024 KiB |   1024 KiB |   1024 KiB |"),
        "{summary}"
    );

    let policy = torch("max_split_size_mb:40", TorchRelease::new(2, 11));
    let oversize = pool_of(&policy, 256 * MIB);
    let rows = ["Oversize allocations", "Oversize GPU segments"];
    let shown = |pool: &MemoryPool| {
        let summary = pool.memory_summary(true);
        let lines = summary.lines().filter(|line| rows.iter().any(|row| line.contains(row)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    drop(oversize.malloc(20 * MIB).unwrap());
    assert_eq!(
        shown(&oversize),
        [
            "| Oversize allocations  |       0    |       0    |       0    |       0    |",
            "| Oversize GPU segments |       0    |       0    |       0    |       0    |",
        ]
    );
    let block = oversize.malloc(50 * MIB).unwrap();
    drop(oversize.malloc(60 * MIB).unwrap());
    oversize.free_all_blocks().unwrap();
    assert_eq!(
        shown(&oversize),
        [
            "| Oversize allocations  |       1    |    n/a     |    n/a     |    n/a     |",
            "| Oversize GPU segments |       1    |       2    |       2    |       1    |",
        ]
    );
    drop(block);

    // Whole pages of expandable segments can be released, so none of their bytes are non-releasable.
    let expandable = pool_of(&torch("expandable_segments:True", TorchRelease::new(2, 11)), 256 * MIB);
    let kept = expandable.malloc(3 * MIB).unwrap();
    let summary = expandable.memory_summary(true);
    assert!(
        summary.contains("| Non-releasable memory |      0 B   |      0 B   |      0 B   |      0 B   |"),
        "{summary}"
    );
    assert!(summary.contains("| GPU reserved memory   |  20480 KiB |"), "{summary}");
    drop(kept);
}
