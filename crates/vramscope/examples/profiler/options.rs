//! Configuration options.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let options = ProfilerOptions {
        track_allocations: true,    // blocks created and freed, by thread
        track_cpu_memory: true,     // this process's host memory
        collect_stack_traces: true, // the caller's stack
        max_results: 1000,          // the summary covers all
        ..ProfilerOptions::default()
    };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, "cuda:0")?, options)?;

    let model = Model::new(&pool, 4)?;
    let (_loss, result) = profiler.try_profile_function("train_step", || model.train_step(32))?;

    let stack = result.memory_before.stack_trace.as_deref().unwrap_or_default();
    let caller = stack.first().map_or("nobody", |frame| &frame.name);
    let cpu_is_known = result.memory_after.cpu_memory.is_some();
    writeln!(out, "blocks created: {}", result.allocations_created.unwrap_or(0))?;
    writeln!(out, "host memory known: {}", cpu_is_known || !cfg!(target_os = "linux"))?;
    writeln!(out, "called by: {caller}")?;
    Ok(())
}
