//! Understanding profile results.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;
    let (_loss, result) = profiler.try_profile_function("train_step", || model.train_step(32))?;

    writeln!(out, "memory_allocated     {}", bytes(result.memory_allocated))?;
    writeln!(out, "memory_freed         {}", bytes(result.memory_freed))?;
    writeln!(out, "memory_diff          {:+} bytes", result.memory_diff().unwrap_or(0))?;
    writeln!(out, "peak_memory_usage    {}", bytes(result.peak_memory_usage()))?;
    writeln!(out, "peak_above_start     {}", bytes(result.peak_above_start()))?;
    writeln!(out, "peak_is_exact        {}", result.peak_is_exact)?;
    writeln!(out, "allocations_created  {}", result.allocations_created.unwrap_or(0))?;
    writeln!(out, "allocations_freed    {}", result.allocations_freed.unwrap_or(0))?;
    writeln!(out, "depth                {}", result.depth)?;
    writeln!(out, "outcome              {:?}", result.outcome)?;

    for snapshot in [&result.memory_before, &result.memory_peak, &result.memory_after] {
        writeln!(out, "{:<20} {}", snapshot.operation.to_string(), bytes(snapshot.allocated_memory))?;
    }
    Ok(())
}
