//! What piles up across calls. Not beside the code: its own frames are left out of stacks.

use vramscope_allocator::{Allocation, MemoryPool, Policy};

use vramscope_profiler::{LeakDetector, PoolSource};

fn pool() -> (MemoryPool, LeakDetector) {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
    let leaks = LeakDetector::new(PoolSource::new(&pool, 0).unwrap().as_ref()).unwrap();
    (pool, leaks)
}

#[test]
fn a_result_is_no_leak_once_it_is_dropped() {
    let (pool, leaks) = pool();
    let step = || {
        let _call = leaks.call("step");
        pool.malloc(50 << 20).unwrap()
    };
    let results: Vec<Allocation> = (0..3).map(|_| step()).collect();
    // Kept, they are a growing list of whoever called.
    assert_eq!(leaks.suspects().len(), 1);
    drop(results);
    assert_eq!(leaks.suspects(), []);
    // A variable that each call sets anew holds two for a moment.
    let mut result = step();
    for _ in 0..10 {
        let next = step();
        drop(std::mem::replace(&mut result, next));
    }
    assert_eq!(leaks.suspects(), []);
}

#[test]
fn a_growing_list_is_a_leak_of_its_line_and_of_every_call_around_it() {
    let (pool, leaks) = pool();
    let mut list = Vec::new();
    let line = line!() + 5;
    for _ in 0..3 {
        let _epoch = leaks.call("epoch");
        let _call = leaks.call("step");
        let _scratch = pool.malloc(1 << 20).unwrap();
        list.push(pool.malloc(3 << 20).unwrap());
    }
    let suspects = leaks.suspects();
    let names: Vec<&str> = suspects.iter().map(|s| &*s.function_name).collect();
    assert_eq!(names, ["epoch", "step"]);
    for suspect in suspects {
        assert!(suspect.line.contains(&format!("leaks.rs:{line} ")), "{}", suspect.line);
        assert_eq!((suspect.floor.as_slice(), suspect.rises), ([1, 2, 3].as_slice(), 2));
        assert_eq!((suspect.kept_blocks, suspect.bytes_per_call), (3, f64::from(3 << 20)));
    }
}

#[test]
fn a_cache_that_levels_off_and_a_state_made_once_are_no_leaks() {
    let (pool, leaks) = pool();
    let (mut state, mut cache) = (Vec::new(), Vec::new());
    for call in 0..20 {
        let _call = leaks.call("step");
        if call == 0 {
            state.extend((0..10).map(|_| pool.malloc(512).unwrap()));
        }
        if call < 8 {
            cache.push(pool.malloc(1024).unwrap());
        }
    }
    assert_eq!(leaks.suspects(), []);
}

#[test]
fn two_calls_are_too_few_and_a_clear_begins_anew() {
    let (pool, leaks) = pool();
    let mut list = Vec::new();
    let mut step = || {
        let _call = leaks.call("step");
        list.push(pool.malloc(512).unwrap());
    };
    for found in [0, 0, 1] {
        step();
        assert_eq!(leaks.suspects().len(), found);
    }
    leaks.clear();
    assert_eq!(leaks.suspects(), []);
    drop(list);
}
