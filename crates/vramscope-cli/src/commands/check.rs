//! `vramscope check`

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{ArgGroup, Args};
use vramscope::analysis::{BudgetCheck, Cancel};
use vramscope::report::{CheckAnswers, CheckJson, TextOptions, check, junit};
use vramscope::session::CheckRequest;

use super::is_stream;
use crate::Found;
use crate::args::ReadArgs;
use crate::output::Output;

/// Rows below an exceeded budget.
const ROWS: usize = 5;

/// Check memory budgets: peaks, growth over a baseline, leaks, out-of-memory failures
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("budgets").required(true).multiple(true).args(BUDGETS)),
    after_help = "Examples:
  vramscope check snapshot.pickle --max-peak 40GiB --no-leaks --no-oom
  vramscope check snapshot.pickle --baseline main.pickle --max-growth 5%
  vramscope check snapshot.pickle --max-reserved 44GiB --junit memory.xml

Exit code 1: a budget is exceeded. Exit code 3: none is, but the recording cannot show whether all are kept."
)]
pub(crate) struct CheckArgs {
    /// A recording, as for `report`; `-` is standard input
    pub(crate) file: PathBuf,
    /// Compare with this recording: the peaks of allocated and reserved bytes must not exceed its peaks, device by device
    #[arg(long, value_name = "OLD")]
    pub(crate) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) request: CheckRequest,
    /// Also write the verdicts as JUnit XML; with `-`, to standard output in place of the text
    #[arg(long, value_name = "OUT")]
    pub(crate) junit: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The options that set a budget.
const BUDGETS: [&str; 6] = ["max_peak", "max_reserved", "max_category", "baseline", "no_leaks", "no_oom"];

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Found> {
    let baseline = args.baseline.as_deref();
    if is_stream(&args.file) && baseline.is_some_and(is_stream) {
        bail!("only one of FILE and --baseline can be standard input");
    }
    if args.json && args.junit.as_deref().is_some_and(is_stream) {
        bail!("--json: standard output is already used by --junit; give --junit a file name");
    }
    let session = super::open(&args.file, args.reading)?;
    let baseline = baseline.map(|file| super::open(file, args.reading)).transpose()?;
    let answers = session
        .check(&args.request, baseline.as_ref(), &Cancel::default())
        .map_err(super::about(session.name()))?;
    write(args, &answers)?;
    Ok(match answers.devices.as_slice() {
        devices if devices.iter().any(BudgetCheck::exceeds_one) => Found::Something,
        devices if devices.iter().all(BudgetCheck::keeps_all) => Found::Nothing,
        _ => Found::Unknown,
    })
}

/// Writes the verdicts in the requested formats.
fn write(args: &CheckArgs, answers: &CheckAnswers<'_>) -> anyhow::Result<()> {
    let options = |width| TextOptions { width, top: ROWS, full_stacks: false };
    let junit_to = args.junit.as_deref();
    if let Some(path) = junit_to {
        let inputs: Vec<&Path> =
            [Some(args.file.as_path()), args.baseline.as_deref()].into_iter().flatten().collect();
        Output::named(path, &inputs)?.write_whole(junit(answers, options(super::WIDTH))?.as_bytes())?;
    }
    if args.json {
        super::print_json(&CheckJson::new(answers))
    } else if junit_to.is_some_and(is_stream) {
        Ok(())
    } else {
        super::print_text(&check(answers, options(super::width())))
    }
}
