//! Prints the memory of a million recorded events, in bytes per event, stacks included.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use vramscope::prelude::*;

const PAIRS: u64 = 333_334;

/// Resident bytes of this process.
fn resident() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).context("statm has no second field")?.parse()?;
    Ok(pages * 4096)
}

/// Allocates through one of many call paths, which `choices` selects.
#[inline(never)]
fn path(pool: &MemoryPool, choices: u64, depth: u32) -> Result<Allocation> {
    if depth == 0 {
        return Ok(pool.malloc(1000)?);
    }
    let allocation = match choices & 1 {
        0 => path(pool, choices >> 1, depth - 1),
        _ => std::hint::black_box(path(pool, choices >> 1, depth - 1)),
    };
    std::hint::black_box(allocation)
}

fn main() -> Result<()> {
    let pool = MemoryPool::on_host(Policy::torch(&Default::default(), TorchRelease::new(2, 11)), 1 << 30)?;
    drop(path(&pool, 0, 20)?);
    pool.record_memory_history(&HistoryOptions::default())?;
    drop(path(&pool, 0, 20)?);
    let before = resident()?;
    for i in 0..PAIRS {
        drop(path(&pool, i, 20)?);
    }
    let after = resident()?;
    let events = 3 * PAIRS;
    let mut out = String::new();
    write!(out, "{:.1}", (after - before) as f64 / events as f64)?;
    writeln!(std::io::stdout(), "{out}")?;
    Ok(())
}
