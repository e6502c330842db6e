//! Device memory outside the pool.

use std::error::Error;
use std::io::Write;

use vramscope::profiler::{HiddenKind, HiddenMemory, HiddenOptions, Reading, Sample, Tick};

use crate::training::bytes;

/// Samples of a device of 80 GiB: a context of 5 GiB, and a library that briefly allocates a workspace.
fn samples() -> Vec<Sample> {
    let sample = |second: i64| {
        let hidden: u64 = if second == 30 { 15 << 30 } else { 5 << 30 };
        let now = Reading {
            allocated: Some(20 << 30),
            reserved: Some(24 << 30),
            device_used: Some((24 << 30) + hidden),
            device_total: Some(80 << 30),
            ..Reading::default()
        };
        Sample { time_us: second * 1_000_000, tick: Tick { now, high: now, high_is_exact: false }, missed: 0 }
    };
    (0..60).map(sample).collect()
}

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let hidden = HiddenMemory::of(&samples(), HiddenOptions::default());

    writeln!(
        out,
        "always {}, at most {}",
        bytes(Some(hidden.constant_bytes)),
        bytes(Some(hidden.highest_bytes))
    )?;
    for finding in &hidden.findings {
        match finding.kind {
            HiddenKind::Constant => writeln!(out, "{:?}: constant", finding.severity)?,
            HiddenKind::Spike { samples, deviations, time_us } => writeln!(
                out,
                "{:?}: spike in {samples} sample, {deviations:.1} deviations above the mean at {} s",
                finding.severity,
                time_us / 1_000_000
            )?,
            other => writeln!(out, "{:?}: {other:?}", finding.severity)?,
        }
    }
    Ok(())
}
