//! Clearing results.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;
    let (_loss, _) = profiler.try_profile_function("large batch", || model.train_step(4096))?;
    tell(out, "before", &profiler)?;

    profiler.clear_results();
    tell(out, "cleared", &profiler)?;

    let (_loss, _) = profiler.try_profile_function("train_step", || model.train_step(32))?;
    tell(out, "after a step", &profiler)?;
    Ok(())
}

fn tell(out: &mut dyn Write, when: &str, profiler: &GpuMemoryProfiler) -> std::io::Result<()> {
    let summary = profiler.get_summary();
    writeln!(out, "{when}:")?;
    writeln!(out, "  calls     {}", summary.total_function_calls)?;
    writeln!(out, "  baseline  {}", bytes(summary.baseline_memory_usage))?;
    writeln!(out, "  peak      {}", bytes(summary.peak_memory_usage))
}
