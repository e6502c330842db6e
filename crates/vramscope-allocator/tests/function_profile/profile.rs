//! The counts of a call, rule by rule.

use std::sync::Arc;

use vramscope_allocator::hooks::function::{self, CallPhase, CupyMemoryProfileHook, Ended, Function};
use vramscope_allocator::hooks::{self, BoxedError, MallocPreprocess, MemoryHook};
use vramscope_allocator::{Limit, MemoryPool, Policy, VirtualDevice};

use crate::{caught, history, only, owned, panic_quietly, pool, pool_of, profile, summary};

#[test]
fn a_call_has_all_its_numbers() {
    let (hook, pool) = (profile(), pool());
    drop(pool.malloc(1000).unwrap());
    let _guard = function::register(hook.clone()).unwrap();
    let kept = function::forward("F", || {
        let from_cache = pool.malloc(1000).unwrap();
        let new = pool.malloc(2000).unwrap();
        drop(from_cache);
        (new, pool.malloc(1).unwrap())
    });
    let call = only(&hook);
    assert_eq!((&*call.function, call.phase.clone(), call.depth), ("F", CallPhase::Forward, 0));
    assert_eq!((call.used_bytes, call.acquired_bytes), (1024 + 2048 + 512, 2048));
    assert_eq!((call.peak_bytes, call.live_bytes, call.freed_bytes), (1024 + 2048, 2048 + 512, 1024));
    assert_eq!(call.ended, Ended::Returned);

    // Later frees change the summary, but not the call's record.
    drop(kept);
    let row = &hook.summary()[0];
    assert_eq!((row.live_bytes, row.freed_bytes, row.peak_bytes), (0, 3584, 3072));
    assert_eq!(only(&hook), call);
}

#[test]
fn memory_allocated_before_or_outside_a_call_does_not_count_for_it() {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    let before = pool.malloc(512).unwrap();
    function::forward("F", || drop(before));
    drop(pool.malloc(1024).unwrap());
    let call = only(&hook);
    assert_eq!((call.used_bytes, call.freed_bytes, call.peak_bytes), (0, 0, 0));
    assert_eq!(hook.total_used_bytes() + hook.total_acquired_bytes(), 0);
}

#[test]
fn calls_inside_calls_are_not_counted_twice() {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    let mut held = Vec::new();
    let outer = Function::new("Outer");
    outer.forward(|| {
        held.push(pool.malloc(512).unwrap());
        function::forward("Inner", || held.push(pool.malloc(1024).unwrap()));
        function::forward("Inner", || held.push(pool.malloc(2048).unwrap()));
    });
    assert_eq!(
        history(&hook),
        owned(&[("Inner", 1, 1024, 1024), ("Inner", 1, 2048, 2048), ("Outer", 0, 3584, 3584)])
    );
    assert_eq!(summary(&hook), owned(&[("Inner", 3072, 3072, 2), ("Outer", 512, 512, 1)]));
    assert_eq!((hook.total_used_bytes(), hook.total_acquired_bytes()), (3584, 3584));
    let peaks: Vec<u64> = hook.summary().iter().map(|row| row.peak_bytes).collect();
    assert_eq!(peaks, [2048, 3584]);
}

#[test]
fn a_function_that_calls_itself_is_not_counted_twice() {
    fn recurse(f: &Function, pool: &MemoryPool, levels: u64) {
        f.forward(|| {
            let _held = pool.malloc(512).unwrap();
            if levels > 1 {
                recurse(f, pool, levels - 1);
            }
        });
    }
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    recurse(&Function::new("F"), &pool, 3);
    assert_eq!(history(&hook), owned(&[("F", 2, 512, 512), ("F", 1, 1024, 1024), ("F", 0, 1536, 1536)]));
    assert_eq!(summary(&hook), owned(&[("F", 1536, 1536, 3)]));
    assert_eq!(hook.total_used_bytes(), 1536);
    assert_eq!(hook.summary()[0].peak_bytes, 1536);
}

#[test]
fn a_running_call_is_not_yet_in_the_answers() {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    let outer = function::scope("Outer", CallPhase::Forward);
    let _a = pool.malloc(512).unwrap();
    let _b = function::forward("Inner", || pool.malloc(1024)).unwrap();
    assert_eq!(summary(&hook), owned(&[("Inner", 1024, 1024, 1)]));
    assert_eq!(hook.total_used_bytes(), 1024);
    drop(outer);
    assert_eq!(hook.total_used_bytes(), 1536);
}

#[test]
fn a_panic_is_recorded_and_the_depth_is_right_afterwards() {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    let f = Function::new("F");
    assert!(caught(|| f.forward(|| {
        let _freed = pool.malloc(512).unwrap();
        f.backward(|| {
            let _freed = pool.malloc(512).unwrap();
            panic_quietly();
        });
    })));
    f.forward(|| drop(pool.malloc(512).unwrap()));
    let calls: Vec<_> =
        hook.call_history().into_iter().map(|c| (c.depth, c.used_bytes, c.freed_bytes, c.ended)).collect();
    assert_eq!(
        calls,
        [(1, 512, 512, Ended::Panicked), (0, 1024, 1024, Ended::Panicked), (0, 512, 512, Ended::Returned)]
    );
    assert_eq!(hook.total_used_bytes(), 1536);
}

#[test]
fn an_early_return_ends_the_call() {
    let (hook, pool) = (profile(), pool_of(2 << 20));
    let _guard = function::register(hook.clone()).unwrap();
    let f = Function::new("F");
    let run = || -> Result<(), vramscope_allocator::AllocError> {
        let _scope = f.scope(CallPhase::Forward);
        let _a = pool.malloc(512)?;
        let _b = pool.malloc(1 << 30)?;
        Ok(())
    };
    run().unwrap_err();
    f.forward(|| ());
    assert_eq!(history(&hook), owned(&[("F", 0, 512, 512), ("F", 0, 0, 0)]));
    assert_eq!(hook.call_history()[0].ended, Ended::Returned);
}

#[test]
fn forward_and_backward_calls_have_separate_rows() {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    let f = Function::new("F");
    let malloc = |size| drop(pool.malloc(size).unwrap());
    f.forward(|| malloc(512));
    f.backward(|| malloc(1024));
    f.forward(|| malloc(512));
    f.phase("eval", || malloc(2048));
    let rows: Vec<_> = hook
        .summary_by_phase()
        .into_iter()
        .map(|row| (row.phase.unwrap(), row.used_bytes, row.peak_bytes, row.occurrence))
        .collect();
    assert_eq!(
        rows,
        [
            (CallPhase::Forward, 1024, 512, 2),
            (CallPhase::Backward, 1024, 1024, 1),
            ("eval".into(), 2048, 2048, 1)
        ]
    );
    assert_eq!(summary(&hook), owned(&[("F", 4096, 512 + 1024 + 2048, 4)]));
    assert_eq!(hook.summary()[0].phase, None);
}

#[test]
fn requests_that_failed_are_not_counted() {
    let (hook, pool) = (profile(), pool_of(4 << 20));
    let _guard = function::register(hook.clone()).unwrap();
    function::forward("Cached", || drop(pool.malloc(3 << 20).unwrap()));
    // The cache is released to the device, and the second attempt succeeds.
    let held = function::forward("Retried", || pool.malloc(4 << 20)).unwrap();
    function::forward("Failed", || pool.malloc(1 << 20).unwrap_err());
    pool.set_limit(Limit::Bytes(4 << 20)).unwrap();
    function::forward("Limited", || pool.malloc(5 << 20).unwrap_err());
    function::forward("Empty", || drop(pool.malloc(0).unwrap()));
    let (three, four) = (3 << 20, 4 << 20);
    assert_eq!(
        summary(&hook),
        owned(&[
            ("Cached", three, three, 1),
            ("Retried", four, four, 1),
            ("Failed", 0, 0, 1),
            ("Limited", 0, 0, 1),
            ("Empty", 0, 0, 1),
        ])
    );
    drop(held);
}

#[test]
fn requests_that_a_hook_refused_are_not_counted() {
    struct Refuse;
    impl MemoryHook for Refuse {
        fn malloc_preprocess(&self, _: &MallocPreprocess) -> Result<(), BoxedError> {
            Err("no".into())
        }
    }
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    function::forward("F", || {
        let _refuse = hooks::register(Arc::new(Refuse)).unwrap();
        pool.malloc(512).unwrap_err();
    });
    assert_eq!((only(&hook).used_bytes, only(&hook).acquired_bytes), (0, 0));
}

#[test]
fn live_bytes_fall_when_memory_is_freed_later() {
    let (hook, pool) = (profile(), pool());
    let guard = function::register(hook.clone()).unwrap();
    let f = Function::new("F");
    let mut held: Vec<_> = (0..3).map(|_| f.forward(|| pool.malloc(512)).unwrap()).collect();
    let live = || (hook.summary()[0].live_bytes, hook.summary()[0].freed_bytes);
    assert_eq!(live(), (1536, 0));
    drop(held.pop());
    assert_eq!(live(), (1024, 512));
    let elsewhere = held.pop();
    std::thread::scope(|s| {
        s.spawn(|| drop(elsewhere));
    });
    assert_eq!(live(), (512, 1024));
    // Also after the hook is removed.
    drop(guard);
    drop(held);
    assert_eq!(live(), (0, 1536));
    assert_eq!(hook.call_history().iter().map(|c| c.live_bytes).sum::<u64>(), 1536);
}

#[test]
fn a_free_on_another_thread_is_the_calls_while_it_runs() {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    function::forward("Outer", || {
        let a = function::forward("Inner", || pool.malloc(512)).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| drop(a));
        });
        drop(pool.malloc(512).unwrap());
    });
    let calls: Vec<_> = hook
        .call_history()
        .into_iter()
        .map(|c| (c.used_bytes, c.peak_bytes, c.live_bytes, c.freed_bytes))
        .collect();
    assert_eq!(calls, [(512, 512, 512, 0), (1024, 512, 0, 1024)]);
}

#[test]
fn a_hook_on_one_function_sees_no_other() {
    let (hook, pool) = (profile(), pool());
    let (f, g) = (Function::new("F"), Function::new("G"));
    f.add_hook(hook.clone(), None).unwrap();
    g.forward(|| {
        drop(pool.malloc(512).unwrap());
        f.forward(|| drop(pool.malloc(1024).unwrap()));
    });
    // Depth 0: only measured calls count.
    assert_eq!(history(&hook), owned(&[("F", 0, 1024, 1024)]));
    f.delete_hook("CupyMemoryProfileHook").unwrap();
    f.forward(|| drop(pool.malloc(1024).unwrap()));
    assert_eq!(hook.total_used_bytes(), 1024);
}

#[test]
fn one_hook_may_be_everywhere_at_once() {
    let (hook, pool) = (profile(), pool());
    let (f, g) = (Function::new("F"), Function::new("G"));
    f.add_hook(hook.clone(), None).unwrap();
    g.add_hook(hook.clone(), None).unwrap();
    g.add_hook(hook.clone(), Some("again")).unwrap();
    let guard = function::register(hook.clone()).unwrap();
    let call = || {
        f.forward(|| drop(pool.malloc(512).unwrap()));
        g.forward(|| drop(pool.malloc(512).unwrap()));
        function::forward("H", || drop(pool.malloc(512).unwrap()));
    };
    call();
    drop(guard);
    call();
    drop(f);
    g.forward(|| drop(pool.malloc(512).unwrap()));
    assert_eq!(summary(&hook), owned(&[("F", 1024, 512, 2), ("G", 1536, 0, 3), ("H", 512, 0, 1)]));
    assert!(hook.call_history().iter().all(|call| call.depth == 0));
}

#[test]
fn several_hooks_may_be_active_at_once() {
    let pool = MemoryPool::new(
        &Policy::cupy(),
        vec![
            Arc::new(VirtualDevice::with_capacity(1 << 30)),
            Arc::new(VirtualDevice::with_capacity(1 << 30)),
        ],
    )
    .unwrap();
    let all = profile();
    let second = Arc::new(CupyMemoryProfileHook::new().with_name("second device").for_device(1));
    let own = profile();
    let _all = function::register(all.clone()).unwrap();
    let _second = function::register(second.clone()).unwrap();
    let f = Function::new("F");
    let malloc = || {
        drop(pool.malloc(512).unwrap());
        drop(pool.device(1).unwrap().malloc(1024).unwrap());
    };
    f.forward(malloc);
    // Takes the position of the thread's hook.
    f.add_hook(own.clone(), None).unwrap();
    f.forward(malloc);
    assert_eq!(summary(&all), owned(&[("F", 1536, 1536, 1)]));
    assert_eq!(summary(&second), owned(&[("F", 2048, 1024, 2)]));
    assert_eq!(summary(&own), owned(&[("F", 1536, 0, 1)]));
}

#[test]
fn each_thread_counts_its_own_memory() {
    let (hook, pool) = (profile(), pool());
    let f = Function::new("F");
    f.add_hook(hook.clone(), None).unwrap();
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|s| {
        for size in [512, 1024, 2048, 4096] {
            let (f, pool, barrier) = (&f, &pool, &barrier);
            s.spawn(move || {
                f.forward(|| {
                    barrier.wait();
                    for _ in 0..100 {
                        drop(pool.malloc(size).unwrap());
                    }
                    barrier.wait();
                });
            });
        }
    });
    let calls = hook.call_history();
    let mut used: Vec<u64> = calls.iter().map(|call| call.used_bytes).collect();
    used.sort_unstable();
    assert_eq!(used, [51_200, 102_400, 204_800, 409_600]);
    assert!(calls.iter().all(|call| call.depth == 0 && call.peak_bytes == call.used_bytes / 100));
    let threads: std::collections::BTreeSet<u64> = calls.iter().map(|call| call.thread).collect();
    assert_eq!(threads.len(), 4);
    assert_eq!(hook.total_used_bytes(), used.iter().sum::<u64>());
    assert_eq!(hook.total_acquired_bytes(), pool.total_bytes());
}

#[test]
fn a_bounded_history_keeps_the_newest_calls() {
    let (hook, pool) = (Arc::new(CupyMemoryProfileHook::new().max_history(2)), pool());
    let _guard = function::register(hook.clone()).unwrap();
    for name in ["F", "G", "H"] {
        function::forward(name, || drop(pool.malloc(512).unwrap()));
    }
    assert_eq!(history(&hook), owned(&[("G", 0, 512, 0), ("H", 0, 512, 0)]));
    assert_eq!(summary(&hook), owned(&[("F", 512, 512, 1), ("G", 512, 0, 1), ("H", 512, 0, 1)]));
    assert_eq!((hook.total_used_bytes(), hook.total_acquired_bytes()), (1536, 512));
    let mut json = Vec::new();
    hook.write_json(&mut json).unwrap();
    assert!(String::from_utf8(json).unwrap().contains("\"num_forgotten\": 1"));
}

#[test]
fn a_scope_that_outlives_the_one_around_it_is_counted_once() {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    let outer = function::scope("Outer", CallPhase::Forward);
    let inner = function::scope("Inner", CallPhase::Forward);
    let a = pool.malloc(512).unwrap();
    drop(outer);
    let b = pool.malloc(1024).unwrap();
    drop(a);
    drop(inner);
    drop(b);
    assert_eq!(history(&hook), owned(&[("Outer", 0, 512, 512), ("Inner", 1, 1536, 1536)]));
    assert_eq!(summary(&hook), owned(&[("Outer", 0, 0, 1), ("Inner", 1536, 1536, 1)]));
    assert_eq!(hook.total_used_bytes(), 1536);
    assert!(hook.summary().iter().all(|row| row.live_bytes == 0));
}

#[test]
fn a_profile_that_is_dropped_is_gone() {
    let (hook, pool) = (profile(), pool());
    let f = Function::new("F");
    f.add_hook(hook.clone(), None).unwrap();
    let a = f.forward(|| pool.malloc(512)).unwrap();
    f.delete_hook("CupyMemoryProfileHook").unwrap();
    let weak = Arc::downgrade(&hook);
    drop(hook);
    assert!(weak.upgrade().is_none());
    drop(a);
}
