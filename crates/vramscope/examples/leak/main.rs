//! A complete program: it profiles a function, monitors the pool, and finds the leaking line.
//!
//! docs/profiler.md shows it.
#![allow(clippy::print_stdout, reason = "a program prints")]

use std::time::Duration;
use vramscope::prelude::*;

// gpumemprof's @profile_function.
#[profile]
fn step(pool: &MemoryPool) -> Result<Allocation, AllocError> {
    let _activations = pool.malloc(64 << 20)?;
    pool.malloc(4)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
    let options = ProfilerOptions { find_leaks: true, ..ProfilerOptions::default() };
    let profiler = PoolProfiler::with_options(&pool, "cuda:0", options)?;
    // Each sample has the peak since the previous one.
    profiler.start_monitoring(Duration::from_millis(100))?;
    // The profiler of functions with #[profile].
    set_global_profiler(profiler.clone());

    let mut losses = Vec::new();
    let epoch = profiler.profile_context("epoch");
    for _ in 0..10 {
        losses.push(step(&pool)?);
    }
    let epoch = epoch.finish();
    assert_eq!(epoch.peak_above_start(), (64 << 20) + 10 * 512);
    assert_eq!(profiler.get_summary().function("step").map(|step| step.call_count()), Some(10));
    let leak = &profiler.leaks()[0];
    assert_eq!(leak.kept_blocks, 10);
    println!("{leak}");
    Ok(())
}

#[cfg(test)]
mod tests;
