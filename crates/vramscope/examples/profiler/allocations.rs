//! Counts of allocations: of a call, and of its thread.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;

    let (_loss, result) = profiler.try_profile_function("train_step", || model.train_step(32))?;
    writeln!(out, "blocks created: {}", result.allocations_created.unwrap_or(0))?;
    writeln!(out, "blocks freed: {}", result.allocations_freed.unwrap_or(0))?;

    // Another thread loads the next batch at the same time.
    let (loaded, result) = profiler.profile_function("step and load", || {
        std::thread::scope(|scope| {
            let loader = scope.spawn(|| pool.malloc(64 << 20));
            let loss = model.train_step(32);
            (loss, loader.join())
        })
    });
    let own = result.thread.unwrap_or_default();
    writeln!(out, "all threads: {}", bytes(result.memory_allocated))?;
    writeln!(out, "this thread: {}, {} blocks", bytes(Some(own.allocated_bytes)), own.num_allocations)?;
    writeln!(out, "peak of this thread: {}", bytes(Some(own.peak_above_start_bytes)))?;
    drop(loaded);
    Ok(())
}
