//! The memory use of calls, on a pool of 24 GiB of addresses without memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use vramscope_allocator::{Allocation, MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    CallOutcome, DeviceSpec, GpuMemoryProfiler, HostSource, MonitorError, PoolSource, ProfilerError,
    ProfilerOptions, SelectError,
};

const GIB: u64 = 1 << 30;

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(24 * GIB))]).unwrap()
}

fn profiled() -> (MemoryPool, GpuMemoryProfiler) {
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    (pool, profiler)
}

#[test]
fn an_outer_block_keeps_its_peak_whatever_is_profiled_inside() {
    let (pool, profiler) = profiled();
    let outer = profiler.profile_context("outer");
    drop(pool.malloc(9 * GIB).unwrap());
    let ((), inner) = profiler.profile_function("inner", || drop(pool.malloc(2 * GIB).unwrap()));
    let after = profiler.profile_context("after");
    let after = after.finish();
    let outer = outer.finish();
    let peaks = [&outer, &inner, &after].map(|r| r.peak_memory_usage().unwrap() / GIB);
    assert_eq!(peaks, [9, 2, 0]);
    assert_eq!([outer.depth, inner.depth, after.depth], [0, 1, 1]);
    assert_eq!(outer.thread.unwrap().peak_above_start_bytes, 9 * GIB);
    assert_eq!(inner.thread.unwrap().peak_above_start_bytes, 2 * GIB);
    // The program's peak is unchanged.
    assert_eq!(pool.statistics().allocated.peak, 9 * GIB);
}

#[test]
fn a_function_that_fails_has_its_true_peak_and_its_error() {
    let (pool, profiler) = profiled();
    let _live = pool.malloc(GIB).unwrap();
    let error = profiler.try_profile_function("step", || {
        let _activations = pool.malloc(10 * GIB)?;
        pool.malloc(14 * GIB)
    });
    let error = error.unwrap_err().to_string();
    let result = profiler.last_result().unwrap();
    assert_eq!(result.peak_memory_usage(), Some(11 * GIB));
    assert_eq!(result.peak_above_start(), Some(10 * GIB));
    assert_eq!(result.memory_after.allocated_memory, Some(GIB));
    assert_eq!(result.outcome, CallOutcome::Failed(error.clone()));
    assert!(error.starts_with("Out of memory allocating 15,032,385,536 bytes"), "{error}");
    assert_eq!((result.memory_allocated, result.memory_freed), (Some(10 * GIB), Some(10 * GIB)));
}

#[test]
fn a_panic_is_recorded_and_passed_on() {
    let (pool, profiler) = profiled();
    let calls: [(&str, &dyn Fn()); 2] = [
        ("function", &|| {
            profiler.profile_function("function", || {
                let _block = pool.malloc(11 * GIB).unwrap();
                panic!("no such {}", "layer")
            });
        }),
        ("block", &|| {
            let _context = profiler.profile_context("block");
            let _block = pool.malloc(11 * GIB).unwrap();
            panic!("no such layer")
        }),
    ];
    for (name, call) in calls {
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert!(panic.is::<&str>() || panic.is::<String>());
        let result = profiler.last_result().unwrap();
        assert_eq!((&*result.function_name, result.peak_memory_usage()), (name, Some(11 * GIB)));
        assert!(matches!(result.outcome, CallOutcome::Panicked(_)), "{:?}", result.outcome);
    }
    assert_eq!(profiler.results()[0].error(), Some("no such layer"));
    assert_eq!(profiler.get_summary().function_summaries["block"].failed_calls, 1);
    // The next call is not nested in the failed calls.
    assert_eq!(profiler.profile_function("next", || ()).1.depth, 0);
}

#[test]
fn a_guard_dropped_by_a_panic_that_was_on_its_way_has_not_panicked() {
    struct Finally<'p>(&'p GpuMemoryProfiler);
    impl Drop for Finally<'_> {
        fn drop(&mut self) {
            drop(self.0.profile_context("cleanup"));
        }
    }
    let (_pool, profiler) = profiled();
    catch_unwind(AssertUnwindSafe(|| {
        let _finally = Finally(&profiler);
        panic!("on its way");
    }))
    .unwrap_err();
    assert_eq!(profiler.last_result().unwrap().outcome, CallOutcome::Returned);
}

/// Both threads are in their calls at the same time.
#[test]
fn each_thread_has_its_own_use_and_the_device_has_one_peak() {
    let (pool, profiler) = profiled();
    let barrier = Barrier::new(2);
    let call = |name: &str, gib: u64| {
        let ((), result) = profiler.profile_function(name, || {
            let block = pool.malloc(gib * GIB).unwrap();
            barrier.wait();
            drop(block);
            barrier.wait();
        });
        result
    };
    let (a, b) = std::thread::scope(|s| {
        let a = s.spawn(|| call("a", 3));
        let b = call("b", 5);
        (a.join().unwrap(), b)
    });
    for (result, gib) in [(&a, 3), (&b, 5)] {
        let used = result.thread.unwrap();
        assert_eq!((used.peak_above_start_bytes, used.allocated_bytes), (gib * GIB, gib * GIB));
        assert_eq!((used.num_allocations, used.num_frees), (1, 1));
        assert_eq!(result.peak_memory_usage(), Some(8 * GIB));
        assert_eq!(result.depth, 0);
    }
}

/// A free counts on the thread that frees, not on the thread that allocated.
#[test]
fn a_free_counts_on_the_thread_that_frees() {
    let (pool, profiler) = profiled();
    let context = profiler.profile_context("make");
    let block = pool.malloc(GIB).unwrap();
    let freed = std::thread::scope(|s| {
        s.spawn(|| profiler.profile_function("free", || drop(block)).1.thread.unwrap()).join().unwrap()
    });
    let made = context.finish();
    assert_eq!((freed.freed_bytes, freed.num_frees, freed.allocated_bytes), (GIB, 1, 0));
    let used = made.thread.unwrap();
    assert_eq!((used.freed_bytes, used.allocated_bytes), (0, GIB));
    assert_eq!((made.allocations_created, made.allocations_freed), (Some(1), Some(1)));
}

#[test]
fn counts_and_bytes_are_gross() {
    let (pool, profiler) = profiled();
    let (kept, result) = profiler.profile_function("churn", || {
        (0..10).for_each(|_| drop(pool.malloc(GIB).unwrap()));
        pool.malloc(GIB).unwrap()
    });
    assert_eq!((result.memory_allocated, result.memory_freed), (Some(11 * GIB), Some(10 * GIB)));
    assert_eq!((result.allocations_created, result.allocations_freed), (Some(11), Some(10)));
    assert_eq!(result.memory_diff(), Some(GIB.cast_signed()));
    let ((), result) = profiler.profile_function("free", || drop(kept));
    assert_eq!(result.memory_diff(), Some(-GIB.cast_signed()));
}

#[test]
fn returned_tensors_are_no_leak_and_a_growing_list_is() {
    let pool = pool();
    let options = ProfilerOptions { find_leaks: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    for _ in 0..3 {
        let (tensor, _) = profiler.profile_function("returns", || pool.malloc(50 << 20).unwrap());
        drop(tensor);
    }
    assert_eq!(profiler.leaks(), []);

    let mut list: Vec<Allocation> = Vec::new();
    let mut line = 0;
    for _ in 0..3 {
        profiler.profile_function("grows", || {
            line = line!() + 1;
            list.push(pool.malloc(50 << 20).unwrap());
        });
    }
    let leaks = profiler.leaks();
    assert_eq!(leaks.len(), 1);
    assert_eq!((&*leaks[0].function_name, leaks[0].kept_bytes), ("grows", 150 << 20));
    assert!(leaks[0].line.contains(&format!("calls.rs:{line} ")), "{}", leaks[0].line);
    assert_eq!(leaks[0].floor, [1, 2, 3]);
    let said = leaks[0].to_string();
    assert!(said.starts_with("grows: 3 blocks of 150.00 MiB retained by "), "{said}");
    assert!(said.ends_with(", 50.00 MiB per call; retained blocks after every call: 1 2 3"), "{said}");
}

#[test]
fn the_summary_has_the_keys_of_gpumemprof_and_counts_nothing_twice() {
    let (pool, profiler) = profiled();
    let _live = pool.malloc(GIB).unwrap();
    profiler.clear_results();
    let kept = profiler
        .profile_function("outer", || profiler.profile_function("inner", || pool.malloc(2 * GIB).unwrap()).0);
    profiler.profile_function("inner", || drop(pool.malloc(3 * GIB).unwrap()));
    let summary = serde_json::to_value(profiler.get_summary()).unwrap();
    for (key, value) in [
        ("total_functions_profiled", 2),
        ("total_function_calls", 3),
        ("total_memory_allocated", 5 * GIB),
        ("total_memory_freed", 3 * GIB),
        ("net_memory_change", 2 * GIB),
        ("peak_memory_usage", 6 * GIB),
        ("current_memory_usage", 3 * GIB),
        ("baseline_memory_usage", GIB),
        ("memory_change_from_baseline", 2 * GIB),
        ("snapshots_collected", 0),
    ] {
        assert_eq!(summary[key], value, "{key}");
    }
    assert_eq!((&summary["device"], &summary["monitoring_active"]), (&"cuda:0".into(), &false.into()));
    assert!(summary["total_execution_time"].as_f64().unwrap() > 0.0);
    let inner = &summary["function_summaries"]["inner"];
    assert_eq!((&inner["call_count"], &inner["peak_memory"]), (&2.into(), &(6 * GIB).into()));
    assert_eq!(inner["avg_memory_allocated"], 2.5 * GIB as f64);
    assert_eq!(inner["avg_time"].as_f64().unwrap() * 2.0, inner["total_time"].as_f64().unwrap());
    drop(kept);
}

#[test]
fn clearing_takes_a_new_baseline_and_keeps_the_programs_peaks() {
    let (pool, profiler) = profiled();
    profiler.profile_function("step", || drop(pool.malloc(4 * GIB).unwrap()));
    assert_eq!(profiler.get_summary().peak_memory_usage, Some(4 * GIB));
    let live = pool.malloc(GIB).unwrap();
    profiler.clear_results();
    let summary = profiler.get_summary();
    assert_eq!((summary.peak_memory_usage, summary.baseline_memory_usage), (Some(GIB), Some(GIB)));
    assert_eq!((summary.total_function_calls, profiler.results().len()), (0, 0));
    assert_eq!(pool.statistics().allocated.peak, 4 * GIB);
    drop(live);
}

/// Each kind of bytes peaks at its own moment. Cached bytes at the peak are those at the moment of peak allocated bytes.
#[test]
fn a_peak_knows_what_was_cached_and_who_allocated() {
    let pool = pool();
    let options = ProfilerOptions { collect_stack_traces: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    drop(pool.malloc(4 * GIB).unwrap());
    let line = line!() + 4;
    let (inner, outer) = {
        let outer = profiler.profile_context("outer");
        let low = pool.malloc(GIB).unwrap();
        let high = pool.malloc(2 * GIB).unwrap();
        drop(high);
        let ((), inner) = profiler.profile_function("inner", || drop(low));
        (inner, outer.finish())
    };
    // 3 of the 4 reserved GiB were in use.
    assert_eq!(outer.memory_peak.inactive_memory, Some(GIB));
    assert_eq!(outer.memory_peak.reserved_memory, Some(4 * GIB));
    let stack = outer.memory_peak.stack_trace.unwrap();
    let here = stack.iter().find(|f| f.filename.ends_with("calls.rs")).unwrap();
    assert_eq!(here.line, line, "{stack:#?}");
    // A call that only frees has its peak at the start, without an allocation.
    assert_eq!(inner.memory_peak.allocated_memory, Some(GIB));
    assert_eq!(inner.memory_peak.stack_trace, None);
    assert_eq!(inner.memory_peak.inactive_memory, inner.memory_before.inactive_memory);
}

/// Each peak has the stack of the thread that reached it, with any number of threads.
#[test]
fn the_stack_of_a_peak_is_that_of_its_thread() {
    fn small(pool: &MemoryPool) -> Allocation {
        pool.malloc(512).unwrap()
    }
    fn large(pool: &MemoryPool) -> Allocation {
        pool.malloc(GIB).unwrap()
    }
    let pool = pool();
    let options = ProfilerOptions { collect_stack_traces: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    for _ in 0..20 {
        let ((), result) = profiler.profile_function("threads", || {
            std::thread::scope(|scope| {
                scope.spawn(|| (0..50).for_each(|_| drop(small(&pool))));
                // The large block is the peak while it is live, with or without a small one.
                scope.spawn(|| drop(large(&pool)));
            });
        });
        let peak = result.memory_peak.allocated_memory.unwrap();
        let stack = result.memory_peak.stack_trace.unwrap();
        let by = stack.iter().find(|f| f.filename.ends_with("calls.rs")).unwrap();
        let expected = if peak == GIB { &["large"][..] } else { &["large", "small"] };
        assert!(expected.iter().any(|name| by.name.contains(name)), "{peak}: {stack:#?}");
    }
}

#[test]
fn limits_of_zero_are_refused() {
    let pool = pool();
    let refused = |options| {
        let source = PoolSource::new(&pool, 0).unwrap();
        GpuMemoryProfiler::with_options(source, options).err().unwrap().to_string()
    };
    let most = ProfilerOptions::default();
    assert_eq!(
        refused(ProfilerOptions { max_snapshots: 0, ..most.clone() }),
        "max_snapshots is 0, so none would be kept; set it to 1 or more"
    );
    assert_eq!(
        refused(ProfilerOptions { max_results: 0, ..most }),
        "max_results is 0, so none would be kept; set it to 1 or more"
    );
}

#[test]
fn snapshots_have_the_fields_of_gpumemprof() {
    let pool = pool();
    let options = ProfilerOptions { collect_stack_traces: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    let line = line!() + 1;
    let (_kept, result) = profiler.profile_function("load", || {
        drop(pool.malloc(GIB).unwrap());
        pool.malloc(512).unwrap()
    });
    let after = serde_json::to_value(&result.memory_after).unwrap();
    for (key, value) in [
        ("allocated_memory", 512),
        ("reserved_memory", GIB),
        ("active_memory", 512),
        ("inactive_memory", GIB - 512),
        ("max_memory_allocated", GIB),
        ("max_memory_reserved", GIB),
        ("device_id", 0),
    ] {
        assert_eq!(after[key], value, "{key}");
    }
    assert_eq!(after["operation"], "after_load");
    assert!(after["timestamp"].as_f64().unwrap() > 1.7e9);
    assert!(after["cpu_memory"].as_u64().is_some() || !cfg!(target_os = "linux"));
    let called = result.memory_before.stack_trace.unwrap();
    assert!(called.iter().any(|f| f.filename.ends_with("calls.rs") && f.line == line), "{called:#?}");
    assert_eq!(result.memory_before.operation.to_string(), "before_load");
    assert_eq!(result.memory_peak.operation.to_string(), "peak_load");
    assert_eq!(profiler.baseline().operation.to_string(), "baseline");
}

/// Everything except the times.
#[test]
fn results_read_as_sentences() {
    let (pool, profiler) = profiled();
    let _live = pool.malloc(GIB).unwrap();
    let context = profiler.profile_context("step");
    drop(pool.malloc(2 * GIB).unwrap());
    let result = context.fail("no such layer");
    let said = result.to_string();
    let (before, after) = said.split_once(" s; ").unwrap();
    assert_eq!(after, "failed: no such layer");
    assert!(before.starts_with("step: peak 3.00 GiB (2.00 GiB above the start), 0 B after, "), "{before}");
    profiler.profile_function("a longer name", || ());
    let summary = profiler.get_summary().to_string();
    let lines: Vec<&str> = summary.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "cuda:0: 2 calls of 2 functions, peak 3.00 GiB, 1.00 GiB now, +1.00 GiB since the baseline",
            "function         calls          peak  allocated per call        time"
        ]
    );
    assert!(
        lines[2].starts_with("step                 1      3.00 GiB            2.00 GiB  "),
        "{}",
        lines[2]
    );
    assert!(
        lines[3].starts_with("a longer name        1      1.00 GiB                 0 B  "),
        "{}",
        lines[3]
    );
}

#[test]
fn results_and_snapshots_are_bounded() {
    let pool = pool();
    let options = ProfilerOptions { max_results: 2, max_snapshots: 3, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    for name in ["a", "b", "c"] {
        profiler.profile_function(name, || ());
    }
    let names: Vec<String> = profiler.results().iter().map(|r| r.function_name.to_string()).collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(profiler.get_summary().total_function_calls, 3);
    for _ in 0..5 {
        profiler.start_monitoring(Duration::from_secs(3600)).unwrap();
        profiler.stop_monitoring();
    }
    assert_eq!(profiler.snapshots().len(), 3);
}

#[test]
fn monitoring_sees_peaks_shorter_than_its_interval() {
    let (pool, profiler) = profiled();
    profiler.start_monitoring(Duration::from_secs(3600)).unwrap();
    assert!(profiler.get_summary().monitoring_active);
    let again = profiler.start_monitoring(Duration::from_secs(1)).unwrap_err();
    assert!(matches!(again, MonitorError::Running { .. }));
    assert_eq!(again.to_string(), "monitoring runs already, every 3600 s; stop it first");
    drop(pool.malloc(7 * GIB).unwrap());
    profiler.stop_monitoring();
    profiler.stop_monitoring();
    let snapshots = profiler.snapshots();
    let last = snapshots.last().unwrap();
    assert_eq!((last.allocated_memory, last.max_memory_allocated), (Some(0), Some(7 * GIB)));
    assert_eq!(last.operation.to_string(), "monitor");
    assert!(!profiler.get_summary().monitoring_active);
    profiler.start_monitoring(Duration::from_secs(1)).unwrap();
}

#[test]
fn a_device_that_does_not_exist_is_refused_by_name() {
    let devices = (0..2).map(|_| Arc::new(VirtualDevice::with_capacity(GIB)) as _).collect();
    let pool = MemoryPool::new(&Policy::cupy(), devices).unwrap();
    for (device, id) in [("cuda:0", 0), ("cuda:1", 1), ("cuda", 0), ("1", 1)] {
        assert_eq!(GpuMemoryProfiler::on_pool(&pool, device).unwrap().source().device_id, Some(id));
    }
    assert_eq!(GpuMemoryProfiler::on_pool(&pool, 1).unwrap().source().device(), "cuda:1");
    let current = GpuMemoryProfiler::on_pool(&pool, DeviceSpec::Current).unwrap();
    assert_eq!(current.source().device_id, Some(0));
    let said = |e: ProfilerError| e.to_string();
    assert_eq!(
        GpuMemoryProfiler::on_pool(&pool, 2).map(drop).map_err(said),
        Err("device cuda:2 is not available: there are 2, from cuda:0".to_owned())
    );
    let cpu = GpuMemoryProfiler::on_pool(&pool, "cpu").map(drop).unwrap_err();
    assert!(matches!(cpu, ProfilerError::Select(SelectError::NotCuda(name)) if name == "cpu"));
}

/// It knows one number; all others are `None`.
#[test]
fn a_source_that_knows_little_says_so() {
    let Ok(source) = HostSource::of_this() else {
        vramscope_testing::skip("proc", "this system does not report host memory");
        return;
    };
    let profiler = GpuMemoryProfiler::new(source.clone()).unwrap();
    let (touched, result) = profiler.profile_function("touch", || {
        std::thread::sleep(Duration::from_millis(1));
        std::hint::black_box(vec![1u8; 64 << 20])
    });
    assert_eq!((result.memory_allocated, result.peak_memory_usage(), result.thread), (None, None, None));
    assert!(!result.peak_is_exact);
    let [before, after, peak] =
        [&result.memory_before, &result.memory_after, &result.memory_peak].map(|s| s.cpu_memory.unwrap());
    assert!(after >= before + (60 << 20) && peak >= after, "{before} {after} {peak}");
    drop(touched);
    assert_eq!(profiler.source().device(), "cpu");
    let summary = profiler.get_summary();
    assert_eq!((summary.total_memory_allocated, summary.peak_memory_usage), (None, None));

    let options = ProfilerOptions { find_leaks: true, ..ProfilerOptions::default() };
    let refused = GpuMemoryProfiler::with_options(source, options).map(drop).unwrap_err().to_string();
    assert!(refused.ends_with("does not report allocations, so leaks cannot be detected; profile a pool"));
}

/// In a separate process, without other tests that allocate in the meantime.
#[test]
#[cfg(target_os = "linux")]
fn host_memory_is_without_what_looking_up_symbols_takes() {
    const ALONE: &str = "VRAMSCOPE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "calls::host_memory_is_without_what_looking_up_symbols_takes";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        assert!(alone.args([name, "--exact"]).env(ALONE, "1").status().unwrap().success());
        return;
    }
    let pool = pool();
    let options = ProfilerOptions { collect_stack_traces: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    let (_block, result) = profiler.profile_function("step", || pool.malloc(GIB).unwrap());
    let [before, after] = [&result.memory_before, &result.memory_after].map(|s| s.cpu_memory.unwrap());
    let tables = vramscope_allocator::symbol_table_bytes();
    assert!(tables > 1 << 20, "{tables} bytes");
    assert!(after.abs_diff(before) < tables / 2, "{before} {after}, with {tables} bytes of tables");
}
