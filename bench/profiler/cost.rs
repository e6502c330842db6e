//! Prints the cost of profiling as JSON; `bench/run.py profiler` runs it and the Python original.
//!
//! - `profiler-cost calls`: nanoseconds of a profiled call of an empty function, and of a malloc and free, with different
//!   options. Medians of alternating batches.
//! - `profiler-cost monitor HZ SECONDS`: processor time in seconds of the program with a monitor, with a thread that only
//!   wakes up at the same rate, and with neither.

use std::hint::black_box;
use std::io::{self, Write as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use vramscope::allocator::DevicePool;
use vramscope::prelude::*;

/// Number of batches for each median; one more batch comes first and is not counted.
const BATCHES: usize = 21;

/// Frames of a recorded stack in addition to the program's own.
const DEPTH: usize = 30;

const NOTHING: ProfilerOptions = ProfilerOptions {
    track_allocations: false,
    track_cpu_memory: false,
    collect_stack_traces: false,
    find_leaks: false,
    max_snapshots: 10_000,
    max_results: 10_000,
};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let told = match args[..] {
        ["calls"] => json!({ "profile_function_ns": profiled_calls()?, "malloc_and_free_ns": blocks()? }),
        ["monitor", hz, seconds] => {
            monitor(hz.parse().context("HZ is a number")?, seconds.parse().context("SECONDS is a number")?)?
        }
        _ => bail!("usage: profiler-cost calls | profiler-cost monitor HZ SECONDS"),
    };
    writeln!(io::stdout(), "{told}")?;
    Ok(())
}

fn profiler(pool: &MemoryPool, options: ProfilerOptions) -> anyhow::Result<GpuMemoryProfiler> {
    Ok(GpuMemoryProfiler::with_options(PoolSource::new(pool, 0)?, options)?)
}

/// Cost of a call of an empty function. Each profiler has a separate pool, so profilers do not affect each other.
fn profiled_calls() -> anyhow::Result<Value> {
    let options = [
        ("default", ProfilerOptions::default(), 10_000),
        ("nothing", NOTHING, 10_000),
        ("track_allocations", ProfilerOptions { track_allocations: true, ..NOTHING }, 10_000),
        ("track_cpu_memory", ProfilerOptions { track_cpu_memory: true, ..NOTHING }, 10_000),
        ("find_leaks", ProfilerOptions { find_leaks: true, ..NOTHING }, 10_000),
        ("collect_stack_traces", ProfilerOptions { collect_stack_traces: true, ..NOTHING }, 1_000),
    ];
    let mut cases = Vec::new();
    for (name, options, calls) in options {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
        let profiler = profiler(&pool, options)?;
        let call = move || drop(black_box(profiler.profile_function("empty", || black_box(()))));
        cases.push(Case { name, calls, work: Box::new(call) });
    }
    Ok(medians(&mut cases))
}

/// Cost of a malloc and free of a cached block of 1 KiB, inside a profiled call and outside.
fn blocks() -> anyhow::Result<Value> {
    let tracking = ProfilerOptions { track_allocations: true, ..NOTHING };
    let leaks = ProfilerOptions { find_leaks: true, ..NOTHING };
    let options = [
        ("no profiler", None, false),
        ("nothing, in a call", Some(NOTHING), true),
        ("track_allocations, outside", Some(tracking.clone()), false),
        ("track_allocations, in a call", Some(tracking), true),
        ("find_leaks, outside", Some(leaks.clone()), false),
        ("find_leaks, in a call", Some(leaks), true),
    ];
    let mut cases = Vec::new();
    for (name, options, inside) in options {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
        let profiler = options.map(|options| profiler(&pool, options)).transpose()?;
        let pairs = move || {
            let _call = profiler.as_ref().filter(|_| inside).map(|p| p.profile_context("blocks"));
            (0..PAIRS).for_each(|_| pair(&pool));
        };
        cases.push(Case { name, calls: 100, work: Box::new(pairs) });
    }
    let medians = deep(DEPTH, &mut || medians(&mut cases));
    let Value::Object(medians) = medians else { bail!("medians are an object") };
    let per_pair = |ns: Value| ns.as_f64().map(|ns| ns / PAIRS as f64);
    Ok(medians.into_iter().map(|(name, ns)| (name, json!(per_pair(ns)))).collect())
}

/// Pairs per call, enough to make the cost of the call itself negligible.
const PAIRS: usize = 1_000;

fn pair(pool: &DevicePool) {
    drop(black_box(pool.malloc(black_box(1 << 10)).ok()));
}

/// Runs `work` with `frames` additional frames on the stack.
#[inline(never)]
fn deep<R>(frames: usize, work: &mut dyn FnMut() -> R) -> R {
    let result = if frames == 0 { work() } else { deep(frames - 1, work) };
    black_box(result)
}

struct Case {
    name: &'static str,
    /// Calls per batch.
    calls: usize,
    work: Box<dyn FnMut()>,
}

/// Nanoseconds of one call of each case: medians of alternating batches.
fn medians(cases: &mut [Case]) -> Value {
    let mut batches = vec![Vec::new(); cases.len()];
    for batch in 0..=BATCHES {
        for (Case { calls, work, .. }, batches) in cases.iter_mut().zip(&mut batches) {
            let start = Instant::now();
            (0..*calls).for_each(|_| work());
            let ns = start.elapsed().as_nanos() as f64 / *calls as f64;
            if batch > 0 {
                batches.push(ns);
            }
        }
    }
    let median = |mut batches: Vec<f64>| {
        batches.sort_by(f64::total_cmp);
        batches[batches.len() / 2]
    };
    cases.iter().zip(batches).map(|(case, batches)| (case.name.to_owned(), json!(median(batches)))).collect()
}

/// Processor time while idle, while a thread only wakes up, and while a monitor runs.
fn monitor(hz: f64, seconds: f64) -> anyhow::Result<Value> {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
    let profiler = profiler(&pool, ProfilerOptions::default())?;
    let _live = pool.malloc(1 << 20)?;
    let time = Duration::from_secs_f64(seconds);
    let interval = Duration::from_secs_f64(1.0 / hz);
    // The first call takes longer.
    cpu()?;
    let (idle, _) = cpu_over(time)?;
    let (stop, stopped) = channel::<()>();
    let waking =
        std::thread::spawn(
            move || {
                while matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {}
            },
        );
    let (waking_cpu, _) = cpu_over(time)?;
    drop(stop);
    waking.join().ok();
    profiler.start_monitoring(interval)?;
    let (monitored, wall) = cpu_over(time)?;
    profiler.stop_monitoring();
    Ok(json!({
        "cpu_s": monitored, "waking_cpu_s": waking_cpu, "idle_cpu_s": idle, "wall_s": wall,
        "samples": profiler.snapshots().len(),
    }))
}

/// Processor time of all threads of this process and wall time, in seconds, while this thread sleeps.
fn cpu_over(time: Duration) -> anyhow::Result<(f64, f64)> {
    let (before, start) = (cpu()?, Instant::now());
    std::thread::sleep(time);
    Ok((cpu()? - before, start.elapsed().as_secs_f64()))
}

/// Processor time of all threads of this process in seconds, as Linux counts it.
fn cpu() -> anyhow::Result<f64> {
    let mut ns = 0.0;
    for task in std::fs::read_dir("/proc/self/task").context("processor time is known on Linux alone")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        ns += text.split_whitespace().next().context("schedstat is empty")?.parse::<f64>()?;
    }
    Ok(ns / 1e9)
}
