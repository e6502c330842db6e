//! The program finds its leak, also in an optimized build, where one line has several return addresses.

use std::fs;
use std::path::Path;

use super::*;

#[test]
fn the_guide_shows_this_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = fs::read_to_string(root.join("examples/leak/main.rs")).unwrap();
    let (_, program) = program.split_once("\n\n").unwrap();
    let (program, _) = program.split_once("\n#[cfg(test)]\n").unwrap();
    let guide = fs::read_to_string(root.join("../../docs/profiler.md")).unwrap();
    assert!(guide.contains(&format!("```rust\n{program}```\n")), "docs/profiler.md shows another program");
}

#[test]
fn it_finds_its_leak() {
    main().unwrap();
}

/// The compiler unrolls short loops completely, and longer loops in part.
#[test]
fn a_leak_is_found_in_a_loop_of_any_length() {
    fn leaks_of<const CALLS: u64>() {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
        let options = ProfilerOptions { find_leaks: true, ..ProfilerOptions::default() };
        let profiler = PoolProfiler::with_options(&pool, "cuda:0", options).unwrap();
        let mut losses = Vec::new();
        for _ in 0..CALLS {
            let (loss, _) = profiler.try_profile_function("step", || pool.malloc(4)).unwrap();
            losses.push(loss);
        }
        let leaks = profiler.leaks();
        assert_eq!(leaks.len(), 1, "{CALLS} calls: {leaks:?}");
        assert_eq!(leaks[0].kept_blocks, CALLS);
        assert!(leaks[0].line.contains("leak/tests.rs:"), "{}", leaks[0].line);
    }
    leaks_of::<3>();
    leaks_of::<4>();
    leaks_of::<12>();
    leaks_of::<40>();
}
