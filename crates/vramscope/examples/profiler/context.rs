//! Profiling a block of code.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;

    let processed = {
        let _block = profiler.profile_context("data_loading");
        let data = pool.malloc(4 * 1000 * 1000)?;
        let product = pool.malloc(4 * 1000 * 1000)?;
        drop(data);
        product
    };

    // `finish` returns the result immediately.
    let block = profiler.profile_context("softmax");
    let _softmax = pool.malloc(processed.requested_size())?;
    drop(processed);
    let softmax = block.finish();

    for result in profiler.results() {
        writeln!(out, "{}:", result.function_name)?;
        writeln!(out, "  peak    {}", bytes(result.peak_memory_usage()))?;
        writeln!(out, "  change  {:+} bytes", result.memory_diff().unwrap_or(0))?;
    }
    writeln!(out, "the last result is softmax: {}", profiler.last_result() == Some(softmax))?;
    Ok(())
}
