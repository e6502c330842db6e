//! A profiler on a small training step, a section at a time: `cargo run -p vramscope --example profiler -- SECTION`
//!
//! Without a section it lists them. docs/profiler.md shows what each prints.

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
    ("function", function::run, "a function: what it allocates, its peak, what it returns"),
    ("decorator", decorator::run, "functions that are profiled as they are written"),
    ("context", context::run, "a block of code"),
    ("monitoring", monitoring::run, "watching from another thread while it trains"),
    ("options", options::run, "what a profiler can do beside the least"),
    ("results", results::run, "everything that is known of one call"),
    ("saving", saving::run, "results as JSON, with the keys of gpumemprof"),
    ("snapshots", snapshots::run, "what was in use at one moment, and what reserved memory is"),
    ("summary", summary::run, "all calls together, by function"),
    ("peaks", peaks::run, "calls inside calls, each with its own peak"),
    ("errors", errors::run, "a step that runs out of memory, and one that panics"),
    ("clearing", clearing::run, "beginning again from a new baseline"),
    ("allocations", allocations::run, "blocks created and freed, by thread"),
    ("devices", devices::run, "how a device is named, and names that are refused"),
    ("leaks", leaks::run, "lines whose blocks pile up from call to call"),
    ("alerts", alerts::run, "a tracker: thresholds, callbacks, phases, a log"),
    ("phases", phases::run, "what the program was doing when a sample was taken; a timeline"),
    ("hidden", hidden::run, "device memory outside of the pool, classified"),
    ("oom", oom::run, "what is left of a run that was out of memory"),
    ("capture", capture::run, "the same of errors that the pool did not raise, and on demand"),
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout().lock();
    let asked = std::env::args().nth(1);
    if let Some(asked) = asked {
        let Some((_, run, _)) = SECTIONS.iter().find(|(name, ..)| *name == asked) else {
            writeln!(io::stderr(), "there is no section {asked}; without one they are listed")?;
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
