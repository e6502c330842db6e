//! Blocks that accumulate across calls. Not in the crate itself: stacks leave out its frames.

use vramscope_allocator::{Allocation, MemoryPool, Policy};

use vramscope_profiler::{LeakDetector, LiveStacks, PoolSource};

/// The same expression on one line, at four return addresses, as in a loop that the compiler unrolls.
macro_rules! unrolled {
    ($turn:expr, $of_one_line:expr) => {
        match $turn % 4 {
            0 => $of_one_line,
            1 => $of_one_line,
            2 => $of_one_line,
            _ => $of_one_line,
        }
    };
}

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
    // While they are kept, they are a growing list of the caller.
    assert_eq!(leaks.suspects().len(), 1);
    drop(results);
    assert_eq!(leaks.suspects(), []);
    // A variable that each call replaces holds two blocks for a moment.
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
fn a_leak_needs_three_calls_and_clear_starts_again() {
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

#[test]
fn a_leak_is_found_in_a_loop_that_the_compiler_unrolls() {
    for calls in [3, 4, 12, 40, 1000u64] {
        let (pool, leaks) = pool();
        let mut list = Vec::new();
        let line = line!() + 3;
        for call in 0..calls {
            let _call = leaks.call("step");
            list.push(unrolled!(call, pool.malloc(512).unwrap()));
        }
        let suspects = leaks.suspects();
        assert_eq!(suspects.len(), 1, "{calls} calls: {suspects:?}");
        assert!(suspects[0].line.contains(&format!("leaks.rs:{line} ")), "{}", suspects[0].line);
        assert_eq!((suspects[0].kept_blocks, suspects[0].kept_bytes), (calls, calls * 512));
        assert_eq!((suspects[0].floor[0], suspects[0].bytes_per_call), (1, 512.0));
    }
}

#[test]
fn a_bounded_list_is_no_leak_in_a_loop_that_the_compiler_unrolls() {
    let (pool, leaks) = pool();
    let mut newest = std::collections::VecDeque::new();
    for call in 0..40 {
        let _call = leaks.call("step");
        newest.push_back(unrolled!(call, pool.malloc(512).unwrap()));
        if newest.len() > 3 {
            newest.pop_front();
        }
    }
    assert_eq!(leaks.suspects(), []);
}

#[inline(never)]
fn keep(pool: &MemoryPool, list: &mut Vec<Allocation>) {
    list.push(pool.malloc(512).unwrap());
}

#[test]
fn a_line_that_is_called_from_several_in_turn_is_a_leak() {
    let (pool, leaks) = pool();
    let mut list = Vec::new();
    for call in 0..12 {
        let _call = leaks.call("step");
        match call % 3 {
            0 => keep(&pool, &mut list),
            1 => keep(&pool, &mut list),
            _ => keep(&pool, &mut list),
        }
    }
    let suspects = leaks.suspects();
    assert_eq!((suspects.len(), suspects[0].kept_blocks), (1, 12), "{suspects:?}");
}

#[test]
fn a_suspect_without_a_line_says_how_to_build_the_program() {
    let (pool, leaks) = pool();
    let mut list = Vec::new();
    for _ in 0..3 {
        let _call = leaks.call("step");
        list.push(pool.malloc(512).unwrap());
    }
    let mut suspect = leaks.suspects().remove(0);
    assert!(!suspect.to_string().contains("line-tables-only"), "{suspect}");
    (suspect.line, suspect.stack) = ("??:0 app::step".to_owned(), vec!["??:0 app::step".to_owned()]);
    assert!(suspect.to_string().ends_with("1 2 3; no line numbers: build with `debug = \"line-tables-only\"` under `[profile.release]` in Cargo.toml"), "{suspect}");
}

#[test]
fn holders_are_what_is_live_most_first() {
    let (pool, _) = pool();
    let before = pool.malloc(512).unwrap();
    let live = LiveStacks::of(PoolSource::new(&pool, 0).unwrap().as_ref()).unwrap();
    let small: Vec<_> = (0..3).map(|_| pool.malloc(512).unwrap()).collect();
    let large = pool.malloc(4096).unwrap();
    drop(before);
    let held = |live: &LiveStacks| live.holders(10).iter().map(|h| (h.bytes, h.count)).collect::<Vec<_>>();
    assert_eq!(held(&live), [(4096, 1), (1536, 3)]);
    // Freed on another thread than it was allocated on.
    std::thread::scope(|s| drop(s.spawn(|| drop(large))));
    assert_eq!(held(&live), [(1536, 3)]);
    drop(small);
    assert_eq!(held(&live), []);
}

#[test]
fn holders_are_added_up_by_line() {
    let (pool, _) = pool();
    let live = LiveStacks::of(PoolSource::new(&pool, 0).unwrap().as_ref()).unwrap();
    let blocks: Vec<Allocation> = (0..8).map(|turn| unrolled!(turn, pool.malloc(512).unwrap())).collect();
    let holders = live.holders(10);
    assert_eq!(holders.iter().map(|h| (h.bytes, h.count)).collect::<Vec<_>>(), [(8 * 512, 8)], "{holders:?}");
    assert_eq!(live.holders(0), []);
    drop(blocks);
}
