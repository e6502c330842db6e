//! Wrapped functions, and futures.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use vramscope_allocator::{AllocError, MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    CallOutcome, GpuMemoryProfiler, PoolProfiler, PoolSource, ProfileResult, ProfilerOptions,
};

const GIB: u64 = 1 << 30;

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(24 * GIB))]).unwrap()
}

/// Polls a future until it is ready. It is never woken, so it must not wait for anything.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Is pending once.
async fn wait() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn depths(profiler: &GpuMemoryProfiler) -> Vec<(String, usize)> {
    profiler.results().iter().map(|r| (r.function_name.to_string(), r.depth)).collect()
}

// ---- wrap ----

#[test]
fn a_wrapped_function_is_shared_by_threads() {
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    let step = profiler.wrap("step", |(rows, columns): (u64, u64)| {
        let block = pool.malloc(rows * columns).unwrap();
        block.size()
    });
    let sizes: u64 = std::thread::scope(|threads| {
        let calls: Vec<_> = (1..=4)
            .map(|n| {
                threads.spawn({
                    let step = &step;
                    move || step((n, 512))
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).sum()
    });
    assert_eq!(sizes, 512 * (1 + 2 + 3 + 4));
    let results = profiler.results();
    assert_eq!(results.len(), 4);
    assert_eq!(results.iter().map(|r| r.thread.unwrap().allocated_bytes).sum::<u64>(), sizes);
    assert!(results.iter().all(|r| r.depth == 0));
}

#[test]
fn a_wrapped_function_may_call_itself() {
    fn countdown(profiler: &'static GpuMemoryProfiler, n: u64) -> u64 {
        type Countdown = Box<dyn Fn(u64) -> u64 + Send + Sync>;
        static WRAPPED: OnceLock<Countdown> = OnceLock::new();
        let wrapped = WRAPPED.get_or_init(|| {
            Box::new(
                profiler.wrap("countdown", move |n| if n == 0 { 0 } else { 1 + countdown(profiler, n - 1) }),
            )
        });
        wrapped(n)
    }
    let profiler = Box::leak(Box::new(GpuMemoryProfiler::on_pool(&pool(), 0).unwrap()));
    assert_eq!(countdown(profiler, 3), 3);
    let depths: Vec<usize> = profiler.results().iter().map(|r| r.depth).collect();
    assert_eq!(depths, [3, 2, 1, 0]);
}

#[test]
fn a_wrapped_function_returns_what_the_function_does_and_records_how_it_ended() {
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    let nothing = profiler.wrap("nothing", |()| ());
    nothing(());
    let load = profiler.try_wrap("load", |bytes: u64| pool.malloc(bytes));
    assert_eq!(load(GIB).unwrap().size(), GIB);
    let error: AllocError = load(25 * GIB).unwrap_err();
    assert_eq!(profiler.last_result().unwrap().outcome, CallOutcome::Failed(error.to_string()));
    let fails = profiler.wrap("fails", |layer: usize| [0, 1][layer]);
    assert_eq!(fails(1), 1);
    catch_unwind(AssertUnwindSafe(|| fails(4))).unwrap_err();
    let panicked = "index out of bounds: the len is 2 but the index is 4".to_owned();
    assert_eq!(profiler.last_result().unwrap().outcome, CallOutcome::Panicked(panicked));
}

// ---- futures ----

#[test]
fn memory_of_other_tasks_while_a_future_waits_is_not_its_own() {
    let pool = pool();
    let options = ProfilerOptions { find_leaks: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    let mut kept = Vec::new();
    for _ in 0..4 {
        let mut future = pin!(profiler.try_profile_future("step", async {
            let held = pool.malloc(2 * GIB)?;
            wait().await;
            drop(held);
            pool.malloc(512)
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        // While it waits, its thread allocates for others, which does not count.
        drop(pool.malloc(3 * GIB).unwrap());
        let Poll::Ready(Ok((block, result))) = future.as_mut().poll(&mut context) else {
            panic!("it is pending")
        };
        kept.push(block);
        let own = result.thread.unwrap();
        assert_eq!((own.allocated_bytes, own.freed_bytes), (2 * GIB + 512, 2 * GIB));
        assert_eq!(own.peak_above_start_bytes, 2 * GIB);
        assert_eq!(result.peak_above_start(), Some(5 * GIB));
        assert_eq!(result.depth, 0);
    }
    let leaks = profiler.leaks();
    assert_eq!(leaks.len(), 1);
    assert_eq!((&*leaks[0].function_name, leaks[0].kept_blocks), ("step", 4));
}

#[test]
fn a_profiled_future_may_move_to_another_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    let mut future = Box::pin(is_send(profiler.profile_future("load", async {
        let first = pool.malloc(GIB).unwrap();
        wait().await;
        (first, pool.malloc(2 * GIB).unwrap())
    })));
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let (_blocks, result) = std::thread::scope(|threads| threads.spawn(move || run(future)).join().unwrap());
    assert_eq!(result.thread.unwrap().allocated_bytes, 3 * GIB);
    assert_eq!(result.peak_above_start(), Some(3 * GIB));
}

/// A call is nested in a future only while the future is polled.
#[test]
fn calls_know_which_futures_they_are_inside_of() {
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    let mut outer = pin!(profiler.profile_future("outer", async {
        profiler.profile_function("first", || ());
        wait().await;
        profiler.profile_future("second", wait()).await;
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(outer.as_mut().poll(&mut context).is_pending());
    profiler.profile_function("between", || ());
    while outer.as_mut().poll(&mut context).is_pending() {}
    let expected = [("first", 1), ("between", 0), ("second", 1), ("outer", 0)];
    assert_eq!(depths(&profiler), expected.map(|(name, depth)| (name.to_owned(), depth)));
    let summary = profiler.get_summary();
    assert_eq!(summary.total_function_calls, 4);
}

#[test]
fn a_future_records_whether_it_failed_panicked_or_was_dropped() {
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    let outcome = || profiler.last_result().unwrap().outcome;

    let error = run(profiler.try_profile_future("fails", async { pool.malloc(25 * GIB) })).unwrap_err();
    assert_eq!(outcome(), CallOutcome::Failed(error.to_string()));

    let panics = profiler.profile_future("panics", async {
        wait().await;
        panic!("no such layer")
    });
    let panic = catch_unwind(AssertUnwindSafe(|| run::<_>(panics).0)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"no such layer"));
    assert_eq!(outcome(), CallOutcome::Panicked("no such layer".to_owned()));

    {
        let mut dropped = pin!(profiler.profile_future("dropped", async {
            let _block = pool.malloc(GIB).unwrap();
            wait().await;
        }));
        assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(outcome(), CallOutcome::Failed("the future was dropped before it completed".to_owned()));
    let last = profiler.last_result().unwrap();
    assert_eq!((last.memory_allocated, last.memory_freed), (Some(GIB), Some(GIB)));

    // A future that was never polled has not started.
    drop(profiler.profile_future("never", wait()));
    assert_eq!(profiler.results().len(), 3);
    // No call stays open on this thread.
    assert_eq!(profiler.profile_function("after", || ()).1.depth, 0);
}

// ---- a profiler of a pool ----

#[test]
fn a_profiler_of_a_pool_knows_every_number() {
    let pool = pool();
    let profiler = PoolProfiler::new(&pool, "cuda:0").unwrap();
    let _live = pool.malloc(GIB).unwrap();
    let (_kept, result) = profiler.profile_function("step", || {
        drop(pool.malloc(4 * GIB).unwrap());
        pool.malloc(GIB).unwrap()
    });
    assert_eq!((result.memory_allocated(), result.memory_freed()), (5 * GIB, 4 * GIB));
    assert_eq!((result.memory_diff(), result.peak_memory_usage()), (GIB as i64, 5 * GIB));
    assert_eq!(result.peak_above_start(), 4 * GIB);
    assert_eq!(result.memory_before().allocated_memory(), GIB);
    assert_eq!(result.memory_after().requested_memory(), 2 * GIB);
    assert_eq!(result.memory_peak().reserved_memory(), 5 * GIB);
    assert_eq!((result.memory_before().inactive_memory(), result.memory_peak().inactive_memory()), (0, 0));
    assert_eq!(result.memory_after().inactive_memory(), 3 * GIB);
    // It is the result that any source's profiler gives.
    let plain: &ProfileResult = result.as_inner();
    assert_eq!(plain.peak_memory_usage(), Some(result.peak_memory_usage()));
    assert_eq!(result.to_string(), plain.to_string());
    assert_eq!(profiler.last_result().unwrap().as_inner(), plain);
    assert_eq!(serde_json::to_value(&result).unwrap(), serde_json::to_value(plain).unwrap());
    assert_eq!(profiler.results(), [result]);

    let block = profiler.profile_context("block");
    drop(pool.malloc(GIB).unwrap());
    assert_eq!(block.finish().peak_above_start(), GIB);
    assert!(profiler.try_profile_function("fails", || pool.malloc(25 * GIB)).is_err());
    assert!(run(profiler.try_profile_future("waits", async { pool.malloc(GIB) })).is_ok());

    let summary = profiler.get_summary();
    assert_eq!((summary.total_memory_allocated(), summary.total_memory_freed()), (7 * GIB, 5 * GIB));
    assert_eq!((summary.net_memory_change(), summary.peak_memory_usage()), (2 * GIB as i64, 5 * GIB));
    assert_eq!((summary.baseline_memory_usage(), summary.current_memory_usage()), (0, 2 * GIB));
    assert_eq!(summary.memory_change_from_baseline(), 2 * GIB as i64);
    let step = summary.function("step").unwrap();
    assert_eq!((step.total_memory_allocated(), step.peak_memory()), (5 * GIB, 5 * GIB));
    assert_eq!((step.avg_memory_allocated(), step.call_count()), ((5 * GIB) as f64, 1));
    let calls: Vec<_> = summary.functions().map(|(name, calls)| (name, calls.call_count())).collect();
    assert_eq!(calls, [("block", 1), ("fails", 1), ("step", 1), ("waits", 1)]);
    assert!(summary.function("no such").is_none());
    assert_eq!(profiler.snapshot().max_memory_allocated(), 5 * GIB);
    assert_eq!(profiler.baseline().reserved_memory(), 0);
    assert!(profiler.snapshots().is_empty());

    // A clone is the same, and it can be used wherever a profiler can.
    let shared: Arc<GpuMemoryProfiler> = profiler.clone().into();
    assert_eq!(shared.results().len(), profiler.results().len());
}
