//! The cost of the pool, its hooks and its history against glibc's malloc. `bench/run.py pool` runs it and prints the
//! results.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark; criterion's macro makes a function")]

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use vramscope::allocator::Device;
use vramscope::engine::{Plan, PlannedRequest};
use vramscope::prelude::*;

/// Block sizes in bytes, with the name of their group.
const SIZES: [(&str, u64); 3] = [("1KiB", 1 << 10), ("64KiB", 64 << 10), ("2MiB", 2 << 20)];

struct Empty;

impl MemoryHook for Empty {
    fn name(&self) -> &str {
        "Empty"
    }
}

fn torch() -> MemoryPool {
    MemoryPool::on_host(Policy::torch(&Default::default(), TorchRelease::new(2, 11)), 1 << 30).unwrap()
}

/// One malloc and one free.
#[inline(always)]
fn pair(pool: &DevicePool, stream: u64, size: u64) {
    drop(black_box(pool.malloc_on(stream, black_box(size)).unwrap()));
}

/// The same with glibc's malloc, through the system allocator that `Vec` uses.
fn glibc(size: u64) {
    drop(black_box(Vec::<u8>::with_capacity(black_box(size as usize))));
}

fn cached_block(c: &mut Criterion) {
    for (name, size) in SIZES {
        let mut group = c.benchmark_group(format!("cached-{name}"));
        group.bench_function("glibc", |b| b.iter(|| glibc(size)));
        let cupy = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
        group.bench_function("cupy", |b| b.iter(|| pair(&cupy, 0, size)));
        let torch = torch();
        group.bench_function("torch", |b| b.iter(|| pair(&torch, 0, size)));
    }
}

fn hooks(c: &mut Criterion) {
    let pool = torch();
    let mut group = c.benchmark_group("hooks");
    group.bench_function("never", |b| b.iter(|| pair(&pool, 0, 1 << 10)));
    let guard = register(Arc::new(Empty)).unwrap();
    group.bench_function("empty", |b| b.iter(|| pair(&pool, 0, 1 << 10)));
    drop(guard);
    group.bench_function("removed", |b| b.iter(|| pair(&pool, 0, 1 << 10)));
    let _guard = pool.register_hook(Arc::new(Empty)).unwrap();
    group.bench_function("empty-of-pool", |b| b.iter(|| pair(&pool, 0, 1 << 10)));
}

/// A round of 20 blocks of different sizes, from the cache and from their planned places.
fn planned(c: &mut Criterion) {
    let sizes: Vec<u64> = (0..20).map(|index| 1 << (10 + index % 12)).collect();
    let round = |pool: &DevicePool| {
        black_box(sizes.iter().map(|&size| pool.malloc_on(0, size).unwrap()).collect::<Vec<_>>());
    };
    let places = sizes.iter().scan(0, |next, &size| {
        let offset = Some(*next);
        *next += size;
        Some(PlannedRequest { size, stream: 0, offset })
    });
    let step: Vec<PlannedRequest> = places.collect();
    let segment = sizes.iter().sum::<u64>().next_multiple_of(2 << 20);
    let mut group = c.benchmark_group("plan");
    let pool = || {
        let policy = Policy::torch(&Default::default(), TorchRelease::new(2, 11));
        MemoryPool::new(&policy, vec![Arc::new(VirtualDevice::with_capacity(1 << 30)) as Arc<dyn Device>])
            .unwrap()
    };
    let cached = pool();
    group.bench_function("cached", |b| b.iter(|| round(&cached)));
    let pool = pool();
    assert!(pool.follow_plan(Arc::new(Plan::new(vec![segment], Vec::new(), step).unwrap())));
    group.bench_function("planned", |b| b.iter(|| round(&pool)));
    let all = pool.plan_use().unwrap();
    assert_eq!(all.planned, all.all(), "{all:?}");
}

/// Time of `iterations` calls of `work`, while another thread runs `other` if it is given.
fn beside(iterations: u64, mut work: impl FnMut(), other: Option<&(dyn Fn() + Sync)>) -> Duration {
    let (running, stop) = (AtomicBool::new(other.is_none()), AtomicBool::new(false));
    std::thread::scope(|s| {
        if let Some(other) = other {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    running.store(true, Ordering::Relaxed);
                    (0..100).for_each(|_| other());
                }
            });
        }
        while !running.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        (0..iterations).for_each(|_| work());
        let elapsed = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        elapsed
    })
}

fn threads(c: &mut Criterion) {
    let pool = torch();
    let mut group = c.benchmark_group("threads");
    let other = || pair(&pool, 2, 1 << 10);
    group.bench_function("glibc-alone", |b| b.iter_custom(|n| beside(n, || glibc(1 << 10), None)));
    group.bench_function("glibc-beside", |b| {
        b.iter_custom(|n| beside(n, || glibc(1 << 10), Some(&|| glibc(1 << 10))));
    });
    group.bench_function("alone", |b| b.iter_custom(|n| beside(n, || pair(&pool, 1, 1 << 10), None)));
    group.bench_function("beside", |b| {
        b.iter_custom(|n| beside(n, || pair(&pool, 1, 1 << 10), Some(&other)));
    });
}

/// Calls `work` from `depth` frames further down.
#[inline(never)]
fn deep(depth: usize, work: &mut dyn FnMut()) -> usize {
    if depth == 0 {
        work();
        return 0;
    }
    black_box(deep(depth - 1, work)) + 1
}

/// Number of frames from the caller of this function to the program's first frame. Inlined functions have no frame.
#[inline(never)]
fn frames() -> usize {
    let (mut counted, mut is_caller) = (0, false);
    backtrace::trace(|frame| {
        counted += usize::from(is_caller);
        is_caller |= std::ptr::eq(frame.symbol_address(), (frames as *const ()).cast());
        true
    });
    counted
}

/// Time of `iterations` calls of `work`. Sets `depth` to the number of frames up to the program's first frame.
#[inline(never)]
fn timed(iterations: u64, depth: &Cell<usize>, work: impl Fn()) -> Duration {
    depth.set(frames());
    let start = Instant::now();
    (0..iterations).for_each(|_| work());
    start.elapsed()
}

fn stacks(c: &mut Criterion) {
    let pool = torch();
    let mut group = c.benchmark_group("stacks");
    let recording = HistoryOptions { max_entries: 100_000, ..HistoryOptions::default() };
    let depth = Cell::new(0);
    // The benchmark's own frames; `deep` adds calls to reach the wanted depth.
    let mut own = 0;
    for wanted in [0, 30, 50] {
        deep(wanted - own.min(wanted), &mut || {
            let mut measure = |name: &str| {
                group.bench_function(format!("{name}-{wanted}"), |b| {
                    b.iter_custom(|n| timed(n, &depth, || pair(&pool, 0, 1 << 10)));
                });
            };
            pool.record_memory_history(&HistoryOptions { context: None, ..recording.clone() }).unwrap();
            measure("history-without");
            pool.record_memory_history(&recording).unwrap();
            measure("history-with");
            pool.record_memory_history(&HistoryOptions { enabled: None, ..recording.clone() }).unwrap();
            measure("unobserved");
            let guard = register(Arc::new(LineProfileHook::new())).unwrap();
            measure("line-profile");
            drop(guard);
            own = own.max(if wanted == 0 { depth.get() } else { 0 });
            assert!(wanted == 0 || depth.get() == wanted, "{} frames", depth.get());
        });
    }
}

criterion_group! {
    name = pool;
    config = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    targets = cached_block, hooks, planned, threads, stacks
}
criterion_main!(pool);
