//! Memory by source line: the reports of CuPy's documentation and tests, and the additional numbers.

use std::sync::{Arc, Mutex};

use vramscope_allocator::hooks::line_profile::{LineNode, LineReport, LineReportOptions, Measure};
use vramscope_allocator::hooks::{LineProfileHook, register};
use vramscope_allocator::{Device, MemoryPool, Policy, SourceFrame, StackSource, Stacks, VirtualDevice};

use crate::MIB;

/// A call stack that a test sets, outermost frame first.
#[derive(Default)]
struct Script(Mutex<Vec<SourceFrame>>);

impl Script {
    fn at(&self, frames: &[(&str, u32, &str)]) {
        *self.0.lock().unwrap() = frames.iter().map(|&(f, l, n)| SourceFrame::new(f, l, n)).collect();
    }
}

impl StackSource for Script {
    fn capture(&self, frames: &mut Vec<SourceFrame>) {
        frames.extend(self.0.lock().unwrap().iter().rev().cloned());
    }
}

fn scripted() -> (Arc<Script>, Arc<LineProfileHook>) {
    let script = Arc::new(Script::default());
    let hook = Arc::new(LineProfileHook::with_source(script.clone(), Stacks::Python));
    (script, hook)
}

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(64 * MIB))]).unwrap()
}

fn printed(hook: &LineProfileHook) -> String {
    let mut out = Vec::new();
    hook.print_report(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const MAIN: (&str, u32, &str) = ("lib/python3.6/unittest/__main__.py", 18, "<module>");
const RUN: (&str, u32, &str) = ("lib/python3.6/unittest/main.py", 255, "runTests");

/// The example of CuPy's documentation, character by character.
#[test]
fn the_report_of_cupys_documentation() {
    let ((script, hook), pool) = (scripted(), pool());
    let guard = register(hook.clone()).unwrap();
    let mut kept = Vec::new();
    for (line, size) in [(37, 1024), (38, 1024), (39, 2048)] {
        script.at(&[MAIN, RUN, ("tests/cupy_tests/test.py", line, "test")]);
        kept.push(pool.malloc(size).unwrap());
    }
    drop(guard);
    assert_eq!(
        printed(&hook),
        "_root (4.00KB, 4.00KB)
  lib/python3.6/unittest/__main__.py:18:<module> (4.00KB, 4.00KB)
    lib/python3.6/unittest/main.py:255:runTests (4.00KB, 4.00KB)
      tests/cupy_tests/test.py:37:test (1.00KB, 1.00KB)
      tests/cupy_tests/test.py:38:test (1.00KB, 1.00KB)
      tests/cupy_tests/test.py:39:test (2.00KB, 2.00KB)
"
    );
}

/// Frames of the system that starts a thread begin with `_start` too, and a file of vramscope has a folder like this.
#[test]
fn a_frame_of_another_language_is_shown_whatever_its_name() {
    let ((script, hook), pool) = (scripted(), pool());
    let guard = register(hook.clone()).unwrap();
    script.at(&[("/home/me/vramscope-engine-demo/src/train.py", 1, "_start_training")]);
    let block = pool.malloc(512).unwrap();
    drop((guard, block));
    assert!(
        printed(&hook).ends_with("train.py:1:_start_training (512.00B, 512.00B)\n"),
        "{}",
        printed(&hook)
    );
}

/// `tests/cupy_tests/cuda_tests/memory_hooks_tests/test_line_profile.py`: the pool has a cached block of 1000 bytes. One request uses it,
/// another needs the device. The depth includes the root.
#[test]
fn a_cached_block_is_used_but_not_acquired() {
    for (max_depth, lines) in [(0, 5), (1, 1), (2, 2)] {
        let (script, _) = scripted();
        let hook = LineProfileHook::with_source(script.clone(), Stacks::Python).max_depth(max_depth);
        let (hook, pool) = (Arc::new(hook), pool());
        drop(pool.malloc(1000).unwrap());
        let guard = register(hook.clone()).unwrap();
        script.at(&[MAIN, RUN, ("test.py", 10, "test_print_report")]);
        let a = pool.malloc(1000).unwrap();
        script.at(&[MAIN, RUN, ("test.py", 11, "test_print_report")]);
        let b = pool.malloc(2000).unwrap();
        drop(guard);
        let report = printed(&hook);
        assert!(report.starts_with("_root (3.00KB, 2.00KB)\n"), "{report}");
        assert_eq!(report.lines().count(), lines, "{report}");
        if max_depth == 0 {
            assert!(report.contains("test.py:10:test_print_report (1.00KB, 0.00B)\n"), "{report}");
            assert!(report.contains("test.py:11:test_print_report (2.00KB, 2.00KB)\n"), "{report}");
        }
        drop((a, b));
    }
}

/// As in CuPy 14, the report contains a line that requests zero bytes.
#[test]
fn the_report_has_lines_that_request_zero_bytes() {
    let ((script, hook), pool) = (scripted(), pool());
    let _guard = register(hook.clone()).unwrap();
    let mut kept = Vec::new();
    for (line, size) in [(37, 0), (38, 1024), (39, 0)] {
        script.at(&[MAIN, ("test.py", line, "test")]);
        kept.push(pool.malloc(size).unwrap());
    }
    drop(kept);
    assert_eq!(
        printed(&hook),
        "_root (1.00KB, 1.00KB)
  lib/python3.6/unittest/__main__.py:18:<module> (1.00KB, 1.00KB)
    test.py:37:test (0.00B, 0.00B)
    test.py:38:test (1.00KB, 1.00KB)
    test.py:39:test (0.00B, 0.00B)
"
    );
}

#[test]
fn a_report_without_lines_says_how_to_build_the_program() {
    let ((script, hook), pool) = (scripted(), pool());
    let _guard = register(hook.clone()).unwrap();
    script.at(&[("??", 0, "app::main")]);
    let _block = pool.malloc(1024).unwrap();
    let note = "\nno line numbers: build with `debug = \"line-tables-only\"` under `[profile.release]` in Cargo.toml\n";
    assert!(printed(&hook).ends_with(note), "{}", printed(&hook));
    assert!(full(&hook.report(&LineReportOptions::default())).ends_with(note));
    script.at(&[MAIN]);
    let _block = pool.malloc(1024).unwrap();
    assert!(!printed(&hook).contains("no line numbers"), "{}", printed(&hook));
}

/// CuPy counts a failed request as used and each attempt as acquired.
#[test]
fn failed_requests_count_nothing() {
    let ((script, hook), pool) = (scripted(), pool());
    let _guard = register(hook.clone()).unwrap();
    script.at(&[("a.py", 1, "f")]);
    pool.malloc(65 * MIB).unwrap_err();
    assert_eq!(printed(&hook), "_root (0.00B, 0.00B)\n");
}

#[test]
fn an_empty_report_is_its_root() {
    assert_eq!(printed(&LineProfileHook::new()), "_root (0.00B, 0.00B)\n");
}

fn full(report: &LineReport) -> String {
    let mut out = Vec::new();
    report.write_full(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Two lines with peaks at different times, a free on another thread, and a line below the threshold.
fn training(script: &Script, pool: &MemoryPool) -> Vec<vramscope_allocator::Allocation> {
    let main = ("train.py", 1, "<module>");
    let (forward, backward) = (("train.py", 10, "forward"), ("train.py", 20, "backward"));
    script.at(&[main]);
    let weights = pool.malloc(8 * 1024).unwrap();
    for _ in 0..3 {
        script.at(&[main, forward, ("layer.py", 5, "linear")]);
        let activation = pool.malloc(4096).unwrap();
        script.at(&[main, forward, ("layer.py", 6, "relu")]);
        let other = pool.malloc(512).unwrap();
        script.at(&[main, backward, ("layer.py", 5, "linear")]);
        let gradient = pool.malloc(6 * 1024).unwrap();
        std::thread::scope(|s| {
            s.spawn(move || drop((activation, other)));
        });
        drop(gradient);
    }
    vec![weights]
}

#[test]
fn live_peak_and_freed_bytes_of_each_line() {
    let ((script, hook), pool) = (scripted(), pool());
    let _guard = register(hook.clone()).unwrap();
    let kept = training(&script, &pool);
    insta::assert_snapshot!(full(&hook.report(&LineReportOptions::default())), @"
    _root (used 39.50KB, acquired 18.50KB, live 8.00KB, peak 18.50KB, freed 31.50KB)
      train.py:1:<module> (used 39.50KB, acquired 18.50KB, live 8.00KB, peak 18.50KB, freed 31.50KB)
        train.py:10:forward (used 13.50KB, acquired 4.50KB, live 0.00B, peak 4.50KB, freed 13.50KB)
          layer.py:5:linear (used 12.00KB, acquired 4.00KB, live 0.00B, peak 4.00KB, freed 12.00KB)
          layer.py:6:relu (used 1.50KB, acquired 512.00B, live 0.00B, peak 512.00B, freed 1.50KB)
        train.py:20:backward (used 18.00KB, acquired 6.00KB, live 0.00B, peak 6.00KB, freed 18.00KB)
          layer.py:5:linear (used 18.00KB, acquired 6.00KB, live 0.00B, peak 6.00KB, freed 18.00KB)
    ");
    let by_line = LineReportOptions {
        depth_from_leaf: 1,
        sort: Some(Measure::Peak),
        threshold: 1024,
        ..LineReportOptions::default()
    };
    // One line has two callers here. Their peaks were counted separately, so the sum is an upper bound.
    insta::assert_snapshot!(full(&hook.report(&by_line)), @"
    _root (used 39.50KB, acquired 18.50KB, live 8.00KB, peak 18.50KB, freed 31.50KB)
      layer.py:5:linear (used 30.00KB, acquired 10.00KB, live 0.00B, peak <= 10.00KB, freed 30.00KB)
      train.py:1:<module> (used 8.00KB, acquired 8.00KB, live 8.00KB, peak 8.00KB, freed 0.00B)
    ");
    drop(kept);
}

#[test]
fn json_and_flame_graph_have_the_same_numbers() {
    let ((script, hook), pool) = (scripted(), pool());
    let _guard = register(hook.clone()).unwrap();
    let kept = training(&script, &pool);
    let report = hook.report(&LineReportOptions::default());
    let mut json = Vec::new();
    report.write_json(&mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let relu = &json["nodes"][4];
    assert_eq!((relu["name"].as_str(), relu["line"].as_u64()), (Some("relu"), Some(6)));
    assert_eq!(relu["used_bytes"].as_u64(), Some(1536));
    assert_eq!(json["nodes"][relu["parent"].as_u64().unwrap() as usize]["name"], "forward");
    let mut svg = Vec::new();
    report.write_flamegraph(Measure::Used, &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("layer.py:6:relu (1,536 bytes, 3.80%)"), "{svg}");
    assert!(svg.contains("_root (40,448 bytes, 100.00%)"), "{svg}");
    drop(kept);
}

#[test]
fn threads_and_devices_have_separate_rows() {
    let devices: Vec<Arc<dyn Device>> =
        (0..2).map(|_| Arc::new(VirtualDevice::with_capacity(64 * MIB)) as Arc<dyn Device>).collect();
    let pool = MemoryPool::new(&Policy::cupy(), devices).unwrap();
    let (script, hook) = scripted();
    script.at(&[("a.py", 1, "f")]);
    let _guard = pool.register_hook(hook.clone()).unwrap();
    // The same bytes, one after the other on each thread and device: each peak is 1 KiB, and so is the peak of the whole.
    drop(pool.device(0).unwrap().malloc(1024).unwrap());
    drop(pool.device(1).unwrap().malloc(1024).unwrap());
    std::thread::scope(|s| {
        s.spawn(|| drop(pool.device(0).unwrap().malloc(1024).unwrap()));
    });
    let numbers = |options: LineReportOptions| {
        let node = hook.report(&options).nodes[1].clone();
        (node.used_bytes, node.peak_bytes, node.peak_is_exact)
    };
    let all = hook.report(&LineReportOptions::default());
    assert_eq!((all.threads.len(), all.device_ids.as_slice()), (2, &[0, 1][..]));
    assert_eq!(numbers(LineReportOptions::default()), (3072, 1024, true));
    let of_device = |id| LineReportOptions { device_id: Some(id), ..LineReportOptions::default() };
    assert_eq!(numbers(of_device(1)), (1024, 1024, true));
    // Two threads on device 0, with separate peaks.
    assert_eq!(numbers(of_device(0)), (2048, 2048, false));
    let thread = LineReportOptions { thread: Some(all.threads[1]), ..LineReportOptions::default() };
    assert_eq!(numbers(thread), (1024, 1024, true));
}

#[inline(never)]
fn inner(pool: &MemoryPool) -> vramscope_allocator::Allocation {
    let block = pool.malloc(1000).unwrap();
    std::hint::black_box(block)
}

#[inline(never)]
fn outer(pool: &MemoryPool) -> vramscope_allocator::Allocation {
    std::hint::black_box(inner(pool))
}

/// Lines of this Rust program, without frames of the profiler and the standard library.
#[test]
fn native_stacks_are_the_programs_own_lines() {
    let (hook, pool) = (Arc::new(LineProfileHook::new()), pool());
    let guard = register(hook.clone()).unwrap();
    let blocks = [outer(&pool), outer(&pool)];
    drop(guard);
    let report = hook.report(&LineReportOptions::default());
    let named =
        |name: &str| -> Vec<&LineNode> { report.nodes.iter().filter(|n| n.name.ends_with(name)).collect() };
    let inner = named("line_profile::inner");
    // Both calls of `outer` are on one line, so their callees are one node.
    assert_eq!((inner.len(), inner[0].used_bytes), (1, 2048), "{report:#?}");
    assert!(inner[0].filename.ends_with("line_profile.rs"));
    assert!(report.nodes[inner[0].parent].name.ends_with("line_profile::outer"));
    assert!(report.nodes.iter().all(|n| !n.name.contains("vramscope_allocator::")), "{report:#?}");
    let leaf = report.nodes.last().unwrap();
    assert!(leaf.name.ends_with("inner"), "the line that allocates is the innermost: {leaf:?}");
    drop(blocks);
}
