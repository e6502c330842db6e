//! CuPy's names for a pool's bytes, and its limits.

use std::process::Command;
use std::sync::Arc;

use vramscope_allocator::{Device, Limit, MemoryPool, Policy, TorchRelease, VirtualDevice};

use crate::{MIB, torch};

fn pool_of(policy: &Policy, capacity: u64) -> MemoryPool {
    MemoryPool::new(policy, vec![Arc::new(VirtualDevice::with_capacity(capacity))]).unwrap()
}

/// `MemoryPool.used_bytes`, `free_bytes`, `total_bytes`, `n_free_blocks`, `free_all_blocks`: a split chunk is released only when all of it
/// is free.
#[test]
fn a_split_chunk_is_released_when_all_of_it_is_free() {
    let pool = pool_of(&Policy::cupy(), 64 * MIB);
    drop(pool.malloc(4096).unwrap());
    let [a, b] = [1024, 1024].map(|n| pool.malloc(n).unwrap());
    assert_eq!((pool.used_bytes(), pool.free_bytes(), pool.total_bytes()), (2048, 2048, 4096));
    assert_eq!(pool.n_free_blocks(), 1);
    drop(a);
    pool.free_all_blocks().unwrap();
    assert_eq!((pool.total_bytes(), pool.n_free_blocks()), (4096, 2));
    drop(b);
    pool.free_all_blocks_of(3).unwrap();
    assert_eq!(pool.total_bytes(), 4096, "nothing on stream 3");
    pool.free_all_blocks().unwrap();
    assert_eq!((pool.total_bytes(), pool.n_free_blocks()), (0, 0));
}

/// Best fit: the smallest block that is large enough; among equal blocks, the lowest address.
#[test]
fn the_best_block_serves() {
    let pool = pool_of(&Policy::cupy(), 64 * MIB);
    let blocks = [4096, 1024, 2048, 1024].map(|n| pool.malloc(n).unwrap());
    let addresses = blocks.each_ref().map(|b| b.address());
    drop(blocks);
    let served = [1000, 1000, 1500, 3000].map(|n| pool.malloc(n).unwrap());
    let [large, first, middle, last] = addresses;
    assert_eq!(served.each_ref().map(|b| b.address()), [first, last, middle, large]);
}

/// A block that was freed on one stream does not serve another stream.
#[test]
fn streams_do_not_share_blocks() {
    let pool = pool_of(&Policy::cupy(), 64 * MIB);
    let freed = pool.malloc_on(1, 1000).unwrap();
    let address = freed.address();
    drop(freed);
    assert_ne!(pool.malloc_on(2, 1000).unwrap().address(), address);
    assert_eq!(pool.malloc_on(1, 1000).unwrap().address(), address);
}

/// `set_limit`, `get_limit` and `CUPY_GPU_MEMORY_LIMIT`, with CuPy's messages.
#[test]
fn limits_are_bytes_or_a_fraction() {
    let pool = pool_of(&Policy::cupy(), 64 * MIB);
    assert_eq!(pool.get_limit(), 0);
    for (text, limit) in [("4194304", 4 * MIB), ("50%", 32 * MIB), ("0", 0), ("0%", 0)] {
        pool.set_limit(text.parse().unwrap()).unwrap();
        assert_eq!(pool.get_limit(), limit, "{text}");
    }
    let wrong = pool.set_limit(Limit::Fraction(1.5)).unwrap_err();
    assert_eq!(wrong.to_string(), "memory limit fraction out of range: 1.5");
    let error = |text: &str| text.parse::<Limit>().unwrap_err().to_string();
    assert_eq!(error("120%"), "memory limit fraction out of range: 1.2");
    assert_eq!(
        error("lots"),
        "memory limit `lots` is neither a number of bytes nor a percentage such as 50%"
    );
    assert_eq!(error("-1"), "memory limit `-1` is neither a number of bytes nor a percentage such as 50%");
}

/// The expected result of the child; set only by the parent.
const EXPECTED: &str = "VRAMSCOPE_TEST_LIMIT";

/// The child process of the next test, with its own environment. Without the variable it does nothing.
#[test]
fn child() {
    let Ok(expected) = std::env::var(EXPECTED) else { return };
    let gpus = [64, 32].map(|mib| Arc::new(VirtualDevice::with_capacity(mib * MIB)) as Arc<dyn Device>);
    let pool = MemoryPool::new(&Policy::cupy(), gpus.into()).unwrap();
    let said = match pool.with_limit_from_env() {
        Ok(pool) => {
            let limits: Vec<u64> = pool.devices().iter().map(|device| device.get_limit() / MIB).collect();
            if limits[0] == 4 {
                let refused = pool.malloc(5 * MIB).unwrap_err().to_string();
                assert!(refused.ends_with("limit set to: 4,194,304 bytes)."), "{refused}");
            }
            format!("{limits:?}")
        }
        Err(e) => e.to_string(),
    };
    assert_eq!(said, expected);
}

/// `CUPY_GPU_MEMORY_LIMIT`, which CuPy's pools apply when they are created (`_parse_limit_string`), for a pool that opts in.
#[test]
fn cupy_gpu_memory_limit_applies_to_pools_that_opt_in() {
    for (set, expected) in [
        (None, "[0, 0]"),
        (Some("0"), "[0, 0]"),
        (Some("4194304"), "[4, 4]"),
        (Some("50%"), "[32, 16]"),
        (Some("0%"), "[0, 0]"),
        (Some("101%"), "CUPY_GPU_MEMORY_LIMIT: memory limit fraction out of range: 1.01"),
        (
            Some(""),
            "CUPY_GPU_MEMORY_LIMIT: memory limit `` is neither a number of bytes nor a percentage such as 50%",
        ),
        (
            Some("2GB"),
            "CUPY_GPU_MEMORY_LIMIT: memory limit `2GB` is neither a number of bytes nor a percentage such as 50%",
        ),
    ] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["limits::child", "--exact"]).env(EXPECTED, expected);
        match set {
            Some(text) => child.env(Limit::VARIABLE, text),
            None => child.env_remove(Limit::VARIABLE),
        };
        let out = child.output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.contains("1 passed"), "{set:?}: {said}");
    }
}

/// CuPy's deprecated name.
#[test]
#[expect(deprecated, reason = "the test covers the deprecated name")]
fn free_all_free_is_free_all_blocks() {
    let pool = pool_of(&Policy::cupy(), 64 * MIB);
    drop(pool.malloc(1024).unwrap());
    assert_eq!(pool.total_bytes(), 1024);
    pool.free_all_free().unwrap();
    assert_eq!((pool.total_bytes(), pool.n_free_blocks()), (0, 0));
}

/// `per_process_memory_fraction` limits reserved bytes, and a request beyond it empties the cache first.
#[test]
fn a_fraction_of_the_device_bounds_pytorchs_policy() {
    let policy = torch("per_process_memory_fraction:0.5", TorchRelease::new(2, 11));
    let pool = pool_of(&policy, 128 * MIB);
    drop(pool.malloc(40 * MIB).unwrap());
    let block = pool.malloc(50 * MIB).unwrap();
    let s = pool.statistics();
    assert_eq!((s.reserved.current, s.reserved.peak), (50 * MIB, 50 * MIB));
    assert_eq!((s.num_alloc_retries, s.segments_freed), (1, 1));
    assert!(pool.malloc(20 * MIB).is_err());
    drop(block);
}

/// A private pool shares no memory, and its cache is released once it is dropped.
#[test]
fn private_pools_keep_to_themselves() {
    let pool = pool_of(&torch("", TorchRelease::new(2, 11)), 1024 * MIB);
    drop(pool.malloc(30 * MIB).unwrap());
    let private = pool.private_pool();
    let whole = pool.private_pool_without_splits();
    assert_ne!(private.id(), whole.id());
    let block = private.malloc_on(0, 5 * MIB).unwrap();
    assert_eq!(whole.malloc_on(0, 5 * MIB).unwrap().size(), 20 * MIB);
    assert_eq!(pool.total_bytes(), 70 * MIB);
    drop(block);
    pool.free_all_blocks().unwrap();
    assert_eq!(pool.total_bytes(), 40 * MIB, "only the default pool's cache");
    drop((private, whole));
    pool.free_all_blocks().unwrap();
    assert_eq!(pool.total_bytes(), 0);
}

/// A scope has its own peaks, independent of resets of the device's peaks.
#[test]
fn scopes_nest() {
    let pool = pool_of(&Policy::cupy(), 64 * MIB);
    let base = pool.malloc(1024).unwrap();
    let outer = pool.peak_scope();
    drop(pool.malloc(8192).unwrap());
    {
        let inner = pool.peak_scope();
        drop(pool.malloc(2048).unwrap());
        pool.reset_peak_stats();
        assert_eq!(inner.peaks().allocated, 3072);
    }
    assert_eq!(outer.peaks().allocated, 9216);
    assert_eq!(pool.statistics().allocated.peak, 1024);
    drop(base);
    assert_eq!(pool.peak_scope().peaks().allocated, 0);
}

#[test]
fn the_hosts_memory_can_be_used() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
    let block = pool.malloc(1000).unwrap();
    assert_eq!(block.address() % 512, 0);
    assert_eq!(block.as_ptr() as u64, block.address());
    let refused = MemoryPool::on_host(torch("expandable_segments:True", TorchRelease::new(2, 11)), 1 << 20);
    assert_eq!(
        refused.err().unwrap().to_string(),
        "this device cannot map memory into reserved addresses; turn expandable_segments off"
    );
}

#[test]
fn impossible_sizes_are_out_of_memory() {
    for policy in [
        Policy::cupy(),
        torch("", TorchRelease::new(2, 11)),
        torch("expandable_segments:True", TorchRelease::new(2, 11)),
    ] {
        let pool = pool_of(&policy, 64 * MIB);
        for size in [u64::MAX, u64::MAX - 511, 1 << 63, 1 << 50] {
            assert!(pool.malloc(size).is_err(), "{size}");
        }
        assert_eq!(pool.total_bytes(), 0);
    }
    let host = MemoryPool::on_host(Policy::cupy(), u64::MAX).unwrap();
    assert!(host.malloc(u64::MAX / 2).is_err());
}
