//! Memory snapshots.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let source = PoolSource::new(&pool, "cuda:0")?;
    let profiler = GpuMemoryProfiler::new(source.clone())?;
    let model = Model::new(&pool, 4)?;
    let (_loss, result) = profiler.try_profile_function("train_step", || model.train_step(4096))?;

    let snapshot = result.memory_after;
    writeln!(out, "operation             {}", snapshot.operation)?;
    writeln!(out, "device_id             {}", snapshot.device_id.unwrap_or(-1))?;
    writeln!(out, "requested_memory      {}", bytes(snapshot.requested_memory))?;
    writeln!(out, "allocated_memory      {}", bytes(snapshot.allocated_memory))?;
    writeln!(out, "active_memory         {}", bytes(snapshot.active_memory))?;
    writeln!(out, "reserved_memory       {}", bytes(snapshot.reserved_memory))?;
    writeln!(out, "inactive_memory       {}", bytes(snapshot.inactive_memory))?;
    writeln!(out, "max_memory_allocated  {}", bytes(snapshot.max_memory_allocated))?;
    writeln!(out, "max_memory_reserved   {}", bytes(snapshot.max_memory_reserved))?;

    // Inactive memory is cache. The part that cannot be released is a separate number.
    writeln!(out, "inactive_split_bytes  {}", bytes(source.inactive_split_bytes()))?;
    source.free_cache()?;
    writeln!(out, "reserved afterwards   {}", bytes(profiler.snapshot().reserved_memory))?;
    Ok(())
}
