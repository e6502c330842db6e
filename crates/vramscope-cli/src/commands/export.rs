//! `vramscope export`

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use regex::Regex;
use serde::Serialize;
use vramscope::export::{Format, Options, Source, Table, Written, write};
use vramscope::session::values::command::one_of;

use super::dataset;
use crate::args::{ReadArgs, rank_pattern};
use crate::output::Output;

/// Convert a recording to the format of another tool
#[derive(Debug, Args)]
#[command(after_help = "Formats, their file name endings, and tools that open them:
  chrome      .json     https://ui.perfetto.dev, chrome://tracing
  pprof       .pb.gz    go tool pprof, and other readers of heap profiles
  folded      .folded   inferno-flamegraph, flamegraph.pl, speedscope
  flamegraph  .svg      a browser
  csv         .csv      spreadsheets, pandas, DuckDB
  parquet     .parquet  pandas, polars, DuckDB, Spark
  pickle      .pickle   torch.cuda._memory_viz, https://pytorch.org/memory_viz

Examples:
  vramscope export snapshot.pickle -o run.json
  vramscope export snapshot.pickle -o peak.svg
  vramscope export snapshot.pickle --format csv --what allocations | head
  vramscope export recording.vramscope -o snapshot.pickle --json
  vramscope export runs/ --format parquet --what summary,holders -o dataset/")]
pub(crate) struct ExportArgs {
    /// A recording, as for `report`; `-` is standard input. Several recordings, folders, patterns and store URLs become
    /// a dataset of Parquet files, partitioned by rank
    #[arg(required = true, value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// The format [default: from the ending of OUT]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&Format::ALL, Format::name))]
    pub(crate) format: Option<Format>,
    /// Output file, replaced only when all is written; a folder for a dataset [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// The table for csv and parquet [default: events]; for a dataset also several, as events,holders, and summary
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = one_of(&TABLES, table_name))]
    pub(crate) what: Vec<Option<Table>>,
    /// For a dataset: a pattern whose first group is the rank in a path, as for `fleet` [default: inferred from differing numbers]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// Export the allocations live after event EVENT (counted from 0) instead of at the peak; for pprof, folded and flamegraph
    #[arg(long, value_name = "EVENT")]
    pub(crate) at: Option<usize>,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Print a summary of the written files as JSON; needs --output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The tables of `--what`; `None` is the summary, which only a dataset has.
const TABLES: [Option<Table>; 5] =
    [Some(Table::Events), Some(Table::Allocations), Some(Table::Segments), Some(Table::Holders), None];

/// The name of a table on the command line.
pub(super) fn table_name(table: Option<Table>) -> &'static str {
    table.map_or("summary", Table::name)
}

/// A summary of the written file, for `--json`.
#[derive(Serialize)]
struct ExportJson {
    file: String,
    format: &'static str,
    output: String,
    output_bytes: u64,
    rows: u64,
    table: Option<&'static str>,
    at_event: Option<usize>,
    devices: Vec<i64>,
}

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<()> {
    // `-o -` is standard output, as `-` is standard input.
    let output = args.output.as_deref().filter(|&o| o != Path::new("-"));
    let [file] = args.files.as_slice() else { return dataset::run(args, output) };
    if dataset::is_meant(args, file, output) {
        return dataset::run(args, output);
    }
    let format = format(args, output)?;
    check(args, format, output)?;

    let session = super::open(file, args.reading)?;
    let (name, trace) = (session.name().to_owned(), session.trace());
    let devices = session.devices(args.device).map_err(super::about(&name))?;
    session.check_event(&devices, args.at).map_err(super::about(&name))?;
    let options = Options { at: args.at, table: args.what.first().copied().flatten().unwrap_or_default() };
    let numbers = devices.iter().map(|&d| trace.devices[d].device).collect();
    let source = Source { trace, frames: session.frames(), devices };

    let mut out = output.map_or_else(|| Ok(Output::stdout()), |path| Output::file(path, &[file]))?;
    let target = out.name().to_owned();
    let written = write(&source, format, &options, &mut out);
    if written.is_err() && out.is_unread() {
        return Ok(());
    }
    let Written { bytes, rows } = written.with_context(|| target.clone())?;
    out.finish()?;
    if args.json {
        super::print_json(&ExportJson {
            file: name,
            format: format.name(),
            output: target,
            output_bytes: bytes,
            rows,
            table: format.is_table().then(|| options.table.name()),
            at_event: args.at,
            devices: numbers,
        })?;
    }
    Ok(())
}

/// The format from `--format`, or from the ending of the output's name.
fn format(args: &ExportArgs, output: Option<&Path>) -> anyhow::Result<Format> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let known = || Format::ALL.map(Format::extension).join(" ");
    let Some(output) = output else {
        bail!("give a format with --format, or a file with --output whose name ends in one of {}", known());
    };
    let name = output.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    match Format::of_file_name(&name) {
        Some(format) => Ok(format),
        None => {
            bail!("{}: does not end in one of {}; give a format with --format", output.display(), known())
        }
    }
}

/// Checks that the options go together, before anything is read.
fn check(args: &ExportArgs, format: Format, output: Option<&Path>) -> anyhow::Result<()> {
    let name = format.name();
    if args.at.is_some() && !format.shows_a_moment() {
        bail!("--at applies to pprof, folded and flamegraph; {name} contains the whole recording");
    }
    if !args.what.is_empty() && !format.is_table() {
        bail!("--what applies to csv and parquet; {name} has no tables");
    }
    if args.rank.is_some() {
        bail!("--rank applies to datasets; this is one recording");
    }
    if args.json && output.is_none() {
        bail!("--json prints a summary of the written file: name the file with --output");
    }
    if output.is_none() && format.is_binary() && super::stdout().is_terminal() {
        bail!(
            "{name} is a binary format: write it to a file, as `--output out{}`, or to a pipe",
            format.extension()
        );
    }
    Ok(())
}
