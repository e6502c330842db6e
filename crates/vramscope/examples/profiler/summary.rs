//! Getting profiling summaries.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;
    for rows in [16, 32, 64] {
        profiler.try_profile_function("train_step", || {
            let (outputs, _) = profiler.try_profile_function("forward", || model.forward(rows))?;
            profiler.try_profile_function("backward", || model.backward(outputs))
        })?;
    }

    let summary = profiler.get_summary();
    writeln!(out, "functions profiled: {}", summary.total_functions_profiled)?;
    writeln!(out, "calls: {}", summary.total_function_calls)?;
    writeln!(out, "allocated: {}", bytes(summary.total_memory_allocated))?;
    writeln!(out, "net change: {:+} bytes", summary.net_memory_change.unwrap_or(0))?;
    writeln!(out, "change since the baseline: {:+} bytes", summary.memory_change_from_baseline.unwrap_or(0))?;
    writeln!(out, "peak: {}", bytes(summary.peak_memory_usage))?;
    for (name, stats) in &summary.function_summaries {
        let average = stats.avg_memory_allocated.map(|bytes| bytes as u64);
        writeln!(out, "{name}:")?;
        writeln!(out, "  calls: {}", stats.call_count)?;
        writeln!(out, "  allocated, on average: {}", bytes(average))?;
        writeln!(out, "  peak: {}", bytes(stats.peak_memory))?;
    }
    Ok(())
}
