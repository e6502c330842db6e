//! `vramscope fit`: searches for changes with which a program fits. Every number comes from a run of the changed program on a phantom GPU.
//!
//! `runner` is one run with changes, `change` the changes with their costs and lines, `vary` the search for a number in the program's
//! arguments, `checkpoints` the choice of modules to checkpoint, `search` the search for changes, `together` runs at the same time. The changes are made in
//! the program by `phantom/changes.py`.

pub(crate) mod args;
mod bisect;
mod change;
mod checkpoints;
pub(crate) mod json;
mod runner;
mod search;
mod together;
mod vary;
mod words;

use crate::Found;
use crate::commands::fit::args::FitArgs;
use crate::commands::{print_json, print_text, stop_flag};

pub(crate) use change::KEYS;
use runner::Runner;

pub(crate) fn run(args: &FitArgs) -> anyhow::Result<Found> {
    vary::check(args)?;
    // The results until a signal are printed. It also reaches the program.
    let runner = Runner::new(args, stop_flag()?)?;
    let found = search::search(&runner)?;
    if args.json {
        print_json(&json::json(&runner, &found))?;
    } else {
        print_text(&words::text(&runner, &found)?)?;
    }
    Ok(if found.fits() { Found::Nothing } else { Found::Something })
}
