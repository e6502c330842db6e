//! Leaks.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let options = ProfilerOptions { find_leaks: true, ..ProfilerOptions::default() };
    let profiler = GpuMemoryProfiler::with_options(PoolSource::new(&pool, "cuda:0")?, options)?;
    let model = Model::new(&pool, 4)?;

    let mut history = Vec::new();
    for step in 0..8 {
        let rows = 16 + step % 3;
        let (_loss, _) = profiler.try_profile_function("step", || {
            log_loss(&pool, &mut history)?;
            model.train_step(rows)
        })?;
    }

    for leak in profiler.leaks() {
        writeln!(out, "{} in {}", leak.line, leak.function_name)?;
        writeln!(out, "  {} in {} blocks", bytes(Some(leak.kept_bytes)), leak.kept_blocks)?;
        writeln!(out, "  {} per call", bytes(Some(leak.bytes_per_call as u64)))?;
        writeln!(out, "  retained blocks after each call: {:?}", leak.floor)?;
    }
    Ok(())
}

/// Keeps blocks that it should free.
#[inline(never)]
fn log_loss(pool: &MemoryPool, history: &mut Vec<Allocation>) -> Result<(), AllocError> {
    history.push(pool.malloc(4096)?);
    Ok(())
}
