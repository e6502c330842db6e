//! `vramscope info`

use std::path::PathBuf;

use clap::Args;
use vramscope::analysis::RecordingFacts;
use vramscope::report::info;

use crate::args::ReadArgs;

/// Show the properties of a file: format, age, contents, counts
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// A snapshot; `-` is standard input
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let session = super::open(&args.file, args.reading)?;
    if args.json {
        super::print_json(&session.info())
    } else {
        super::print_text(&info(session.name(), session.recording(), &RecordingFacts::of(session.trace())))
    }
}
