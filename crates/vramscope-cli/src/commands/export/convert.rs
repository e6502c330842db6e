//! `vramscope convert`: an export of one recording to the format that the name of the output selects, with what is lost.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use vramscope::export::ExportOptions;

use super::{format_of, unknown_ending, write_one};
use crate::args::ReadArgs;
use crate::say::{print_json, say};

/// Convert a recording to another format, and list what is lost
#[derive(Debug, Args)]
#[command(
    after_help = "The ending of OUT selects the format, as for `export`. vramscope reads recordings as .pickle and .vramscope again.

Examples:
  vramscope convert run.vramscope run.pickle
  vramscope convert rmm_log.csv run.pickle
  vramscope convert snapshot.pickle snapshot.vramscope"
)]
pub(crate) struct ConvertArgs {
    /// A recording of any format that `report` reads; `-` is standard input
    #[arg(value_name = "IN")]
    file: PathBuf,
    /// Output file, replaced only when all is written
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Only this device
    #[arg(long, value_name = "N")]
    device: Option<i64>,
    /// Print a summary of the written file and of what is lost as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    if args.output == Path::new("-") {
        bail!("name a file: its ending selects the format; `vramscope export` writes to standard output");
    }
    let Some(format) = format_of(&args.output) else { bail!("{}", unknown_ending(&args.output)) };
    let options = ExportOptions::default();
    let written = write_one(&args.file, Some(&args.output), format, &options, args.device, args.reading)?;
    let Some(written) = written else { return Ok(()) };
    if args.json {
        return print_json(&written);
    }
    for what in &written.lost {
        say(&format!("note: {}: lost: {what}", written.output));
    }
    Ok(())
}
