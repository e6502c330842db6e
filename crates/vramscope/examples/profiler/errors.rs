//! Error handling.

use std::error::Error;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool_of(64 << 20)?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;

    let failed = profiler.try_profile_function("large batch", || model.train_step(4096)).is_err();
    // A panic is recorded and passed on.
    catch_unwind(AssertUnwindSafe(|| {
        profiler.profile_function("no such layer", || model.forward(32).map(|outputs| outputs[4].size()))
    }))
    .ok();

    writeln!(out, "error returned: {failed}")?;
    for result in profiler.results() {
        writeln!(out, "{}: {}", result.function_name, result.error().unwrap_or("no error"))?;
        writeln!(out, "  before  {}", bytes(result.memory_before.allocated_memory))?;
        writeln!(out, "  peak    {}", bytes(result.peak_memory_usage()))?;
        writeln!(out, "  after   {}", bytes(result.memory_after.allocated_memory))?;
    }
    Ok(())
}
