//! `vramscope diff`

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use vramscope::analysis::Cancel;
use vramscope::report::{DiffJson, ROWS, TextOptions, diff};
use vramscope::session::DiffRequest;

use super::is_stream;
use crate::Found;
use crate::args::ReadArgs;

/// Compare two recordings of a program: what the second allocates more or less of, and why
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope diff before.pickle after.pickle
  vramscope diff phantom.pickle gpu.pickle --device 0 --json

Exit code 0: the recordings are the same. Exit code 1: they differ.")]
pub(crate) struct DiffArgs {
    /// A recording; `-` is standard input
    pub(crate) a: PathBuf,
    /// The recording to compare with A
    pub(crate) b: PathBuf,
    #[command(flatten)]
    pub(crate) request: DiffRequest,
    /// Rows of each list [default: 10; with --json all]
    #[arg(long, value_name = "N", conflicts_with = "json")]
    pub(crate) top: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Found> {
    if is_stream(&args.a) && is_stream(&args.b) {
        bail!("only one of A and B can be standard input");
    }
    let a = super::open(&args.a, args.reading)?;
    let b = super::open(&args.b, args.reading)?;
    let both = format!("{} and {}", a.name(), b.name());
    let answers = a.diff(&b, &args.request, &Cancel::default()).map_err(super::about(&both))?;
    if args.json {
        super::print_json(&DiffJson::new(&answers))?;
    } else {
        let top = args.top.unwrap_or(ROWS);
        super::print_text(&diff(&answers, TextOptions { width: super::width(), top, full_stacks: false }))?;
    }
    Ok(if answers.is_same() { Found::Nothing } else { Found::Something })
}
