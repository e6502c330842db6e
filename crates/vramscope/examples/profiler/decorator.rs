//! Functions with the attribute `#[profile]`.

use std::error::Error;
use std::io::Write;

use vramscope::prelude::*;

use crate::training::{self, Model, bytes};

#[profile]
fn load(pool: &MemoryPool, rows: u64) -> Result<Allocation, AllocError> {
    pool.malloc(4 * 1000 * rows)
}

#[profile(name = "train")]
fn train_on(model: &Model, batch: Allocation) -> Result<Allocation, AllocError> {
    let loss = model.train_step(batch.size() / 4000)?;
    drop(batch);
    Ok(loss)
}

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let pool = training::pool()?;
    let model = Model::new(&pool, 4)?;
    drop(train_on(&model, load(&pool, 32)?)?); // runs without being measured

    let profiler = PoolProfiler::new(&pool, "cuda:0")?;
    set_global_profiler(profiler.clone());
    std::thread::scope(|threads| {
        for rows in [16, 32, 64] {
            let (pool, model) = (&pool, &model);
            threads.spawn(move || train_on(model, load(pool, rows)?));
        }
    });
    for name in ["load", "train"] {
        if let Some(calls) = profiler.get_summary().function(name) {
            writeln!(out, "{name}: {} calls", calls.call_count())?;
        }
    }
    let (loss, result) = profiler.try_profile_function("both", || train_on(&model, load(&pool, 32)?))?;
    writeln!(out, "both: {}", bytes(Some(result.peak_above_start())))?;
    take_global_profiler();
    drop(loss);
    Ok(())
}
