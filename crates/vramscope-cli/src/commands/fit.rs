//! `vramscope fit`: the library `vramscope-fit` with a terminal.

use clap::Args;
use vramscope::fit::{FitRequest, fit};

use super::phantom::Terminal;
use super::{print_json, print_text, stop_flag};
use crate::Found;

/// Find changes with which a program fits in GPU memory, each verified by a run on a phantom GPU
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope fit --gpu rtx4090 -- python train.py
  vramscope fit --gpu rtx4090 --budget 20GiB -- python train.py
  vramscope fit --vary 'batch=1..256' -- python train.py --batch '{batch}'
  vramscope fit --vary 'length=128..4096' --env 'LENGTH={length}' -- ./train.sh

The program runs once per change, without its output; the last exception of a failed run is shown. Exit code 1: nothing was found with which it fits. 3: it is unknown whether it fits.")]
pub(crate) struct FitArgs {
    #[command(flatten)]
    request: FitRequest,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &FitArgs) -> anyhow::Result<Found> {
    // The results until a signal are printed. It also reaches the program.
    let terminal = Terminal::new(stop_flag()?)?;
    let answer = fit(&args.request, &terminal)?;
    if args.json {
        print_json(&answer.json())?;
    } else {
        print_text(&answer.text())?;
    }
    Ok(match () {
        () if answer.fits() => Found::Nothing,
        () if answer.is_unknown() => Found::Unknown,
        () => Found::Something,
    })
}
