//! Continuous monitoring.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;

    profiler.start_monitoring(Duration::from_millis(100))?;
    for _epoch in 0..10 {
        let _loss = model.train_step(32)?;
    }
    profiler.stop_monitoring();

    let snapshots = profiler.snapshots();
    let highest = snapshots.iter().filter_map(|s| s.max_memory_allocated).max();
    let seen = snapshots.iter().filter_map(|s| s.allocated_memory).max();
    writeln!(out, "snapshots: {}", if snapshots.len() >= 2 { "two or more" } else { "too few" })?;
    writeln!(out, "highest snapshot: {}", bytes(highest))?;
    writeln!(out, "the pool's peak:  {}", bytes(Some(pool.statistics().allocated.peak)))?;
    writeln!(out, "sampled values are not higher: {}", seen <= highest)?;

    // A second monitor is an error.
    profiler.start_monitoring(Duration::from_millis(100))?;
    if let Err(error) = profiler.start_monitoring(Duration::from_millis(10)) {
        writeln!(out, "{error}")?;
    }
    Ok(())
}
