//! Peak memory tracking.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;

    let epoch = profiler.profile_context("epoch");
    for (name, rows) in [("large batch", 4096), ("small batch", 32)] {
        let (_loss, step) = profiler.try_profile_function(name, || model.train_step(rows))?;
        writeln!(out, "{name}: {}", bytes(step.peak_memory_usage()))?;
    }
    let epoch = epoch.finish();
    writeln!(out, "epoch: {}", bytes(epoch.peak_memory_usage()))?;
    writeln!(out, "above the start: {}", bytes(epoch.peak_above_start()))?;

    // Nothing was reset: the pool's peak is unchanged.
    writeln!(out, "the pool's peak: {}", bytes(Some(pool.statistics().allocated.peak)))?;
    Ok(())
}
