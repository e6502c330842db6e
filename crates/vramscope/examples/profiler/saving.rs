//! Results as JSON.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use vramscope::prelude::*;
use vramscope::profiler::SavedResults;

use crate::training::{self, Model, bytes};

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
    let model = Model::new(&pool, 4)?;
    profiler.start_monitoring(Duration::from_secs(60))?;
    let (_loss, _) = profiler.try_profile_function("train_step", || model.train_step(32))?;
    profiler.stop_monitoring();

    let mut json = Vec::new();
    profiler.saved_results().write(&mut json)?;

    let saved = SavedResults::read(&json[..])?;
    let step = &saved.results[0];
    writeln!(out, "{}: peak {}", step.function_name, bytes(step.peak_memory_usage()))?;

    let value: serde_json::Value = serde_json::from_slice(&json)?;
    let step = value["results"][0].as_object().ok_or("a result is an object")?;
    writeln!(out, "keys of a result:")?;
    for key in ["memory_diff", "peak_memory_usage", "memory_freed", "tensors_created"] {
        writeln!(out, "  {key:<18} {}", step[key])?;
    }
    writeln!(out, "snapshots: {}", saved.snapshots.len())?;

    let wrong = String::from_utf8(json)?.replace("\"call_count\": 1", "\"call_count\": true");
    let error = SavedResults::read(wrong.as_bytes()).err().ok_or("it is wrong")?.to_string();
    writeln!(out, "{}", error.split(" at line").next().unwrap_or_default())?;
    Ok(())
}
