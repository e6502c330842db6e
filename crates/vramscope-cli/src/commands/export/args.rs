//! The arguments of `vramscope export`.

use std::path::PathBuf;

use clap::Args;
use regex::Regex;
use vramscope::export::{ExportFormat, Table};
use vramscope::session::values::command::one_of;

use crate::args::{ReadArgs, rank_pattern};

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
  log         .vramscope  vramscope: a recording as programs write it while they run

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
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&ExportFormat::ALL, ExportFormat::name))]
    pub(crate) format: Option<ExportFormat>,
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
