//! A profiler on a small training step, in sections: `cargo run -p vramscope --example profiler -- SECTION`
//!
//! Without a section it lists the sections. docs/profiler.md shows their output.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

mod alerts;
mod allocations;
mod capture;
mod clearing;
mod context;
mod decorator;
mod devices;
mod errors;
mod function;
mod hidden;
mod leaks;
mod monitoring;
mod oom;
mod options;
mod peaks;
mod phases;
mod results;
mod saving;
mod snapshots;
mod summary;
#[cfg(test)]
mod tests;
mod training;

type Section = fn(&mut dyn Write) -> Result<(), Box<dyn Error>>;

const SECTIONS: [(&str, Section, &str); 20] = [
    ("function", function::run, "a function: its allocations, its peak, its return value"),
    ("decorator", decorator::run, "functions with the attribute #[profile]"),
    ("context", context::run, "a block of code"),
    ("monitoring", monitoring::run, "monitoring from another thread during training"),
    ("options", options::run, "the options of a profiler"),
    ("results", results::run, "all numbers of one call"),
    ("saving", saving::run, "results as JSON, with the keys of gpumemprof"),
    ("snapshots", snapshots::run, "memory use at one moment, and reserved memory"),
    ("summary", summary::run, "all calls together, by function"),
    ("peaks", peaks::run, "nested calls, each with its own peak"),
    ("errors", errors::run, "a step that runs out of memory, and one that panics"),
    ("clearing", clearing::run, "a new baseline"),
    ("allocations", allocations::run, "blocks created and freed, by thread"),
    ("devices", devices::run, "names of devices, and invalid names"),
    ("leaks", leaks::run, "lines whose blocks accumulate across calls"),
    ("alerts", alerts::run, "a tracker: thresholds, callbacks, phases, a log"),
    ("phases", phases::run, "samples with the phases of the program; a timeline"),
    ("hidden", hidden::run, "device memory outside the pool, classified"),
    ("oom", oom::run, "bundles of a run that is out of memory"),
    ("capture", capture::run, "bundles for errors that the pool did not raise, and on demand"),
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout().lock();
    let asked = std::env::args().nth(1);
    if let Some(asked) = asked {
        let Some((_, run, _)) = SECTIONS.iter().find(|(name, ..)| *name == asked) else {
            writeln!(io::stderr(), "there is no section {asked}; run without a section to list them")?;
            return Ok(ExitCode::from(2));
        };
        run(&mut out)?;
    } else {
        for (name, _, about) in SECTIONS {
            writeln!(out, "{name:<12} {about}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
