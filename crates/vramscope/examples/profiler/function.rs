//! Profiling a function.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;

    let (loss, result) = profiler.try_profile_function("train_step", || model.train_step(32))?;

    writeln!(out, "{}", result.function_name)?;
    writeln!(out, "  allocated  {}", bytes(result.memory_allocated))?;
    writeln!(out, "  freed      {}", bytes(result.memory_freed))?;
    writeln!(out, "  peak       {}", bytes(result.peak_memory_usage()))?;
    writeln!(out, "  time       {}", if result.execution_time.is_zero() { "none" } else { "some" })?;
    writeln!(out, "loss: {} bytes", loss.requested_size())?;
    Ok(())
}
