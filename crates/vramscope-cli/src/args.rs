//! The command-line arguments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use regex::Regex;
use vramscope::allocator::TorchRelease;
use vramscope::analysis::{By, Growth};
use vramscope::export::{ExportFormat, Table};
use vramscope::gpus::{self, Gpu};
use vramscope::profiler::{ListenAddress, LogFormat, Quantity, Severity, Threshold};
use vramscope::trace::Category;
use vramscope::trace::formats::ReadOptions;
use vramscope::units::parse_bytes;

/// See, explain and fix GPU memory.
#[derive(Debug, Parser)]
#[command(name = "vramscope", version, arg_required_else_help = true, term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Report(ReportArgs),
    Check(CheckArgs),
    Diff(DiffArgs),
    Replay(ReplayArgs),
    View(ViewArgs),
    Export(ExportArgs),
    Fleet(FleetArgs),
    Query(QueryArgs),
    FleetScheduler(FleetSchedulerArgs),
    FleetExecutor(FleetExecutorArgs),
    Run(RunArgs),
    Monitor(MonitorArgs),
    Top(TopArgs),
    Phantom(PhantomArgs),
    Info(InfoArgs),
    Mcp(McpArgs),
    Completions(CompletionsArgs),
}

/// Report the peak, the lines that hold it, leaks, fragmentation and out-of-memory failures
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope report snapshot.pickle
  vramscope report snapshot.pickle --by function --top 20
  vramscope report snapshot.pickle --at 1200 --filter 'model\\.py'
  zstdcat big.pickle.zst | vramscope report - --json")]
pub(crate) struct ReportArgs {
    /// A PyTorch snapshot (pickle or JSON), or a log of `monitor` or of a tracker, optionally compressed with gzip or
    /// zstd; `-` is standard input
    pub(crate) file: PathBuf,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Report the allocations live after event EVENT (counted from 0) instead of at the peak; or, as FIRST..LAST, the
    /// allocations and frees of these events, both ends included
    #[arg(long, value_name = "EVENT", value_parser = at)]
    pub(crate) at: Option<AtArg>,
    /// Group live allocations by this key, instead of showing the tree of calls
    #[arg(long)]
    pub(crate) by: Option<ByArg>,
    /// Keep only stacks with a frame that matches; a frame is matched as `file:line function`
    #[arg(long, value_name = "REGEX")]
    pub(crate) filter: Option<Regex>,
    /// Rows of each list [default: 10; with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Show every frame below each row, instead of the tree of calls in user code
    #[arg(long)]
    pub(crate) full_stacks: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The events that a report covers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AtArg {
    /// The state after one event.
    Event(usize),
    /// An inclusive range of events.
    Events(usize, usize),
}

fn at(text: &str) -> Result<AtArg, String> {
    let number = |text: &str| {
        text.parse::<usize>().map_err(|_| "expected an event index, or a range as 10..99".to_owned())
    };
    let Some((first, last)) = text.split_once("..") else { return Ok(AtArg::Event(number(text)?)) };
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("event {last} is before event {first}: the range is empty"));
    }
    Ok(AtArg::Events(first, last))
}

/// Keys that live allocations can be grouped by.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ByArg {
    Line,
    Function,
    File,
    Module,
    Stack,
    Pool,
    Stream,
    Category,
    Layer,
    Step,
    Size,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Line => Self::Line,
            ByArg::Function => Self::Function,
            ByArg::File => Self::File,
            ByArg::Module => Self::Module,
            ByArg::Stack => Self::Stack,
            ByArg::Pool => Self::Pool,
            ByArg::Stream => Self::Stream,
            ByArg::Category => Self::Category,
            ByArg::Layer => Self::Layer,
            ByArg::Step => Self::Step,
            ByArg::Size => Self::Size,
        }
    }
}

/// The grouping key with this name, as for `--by`.
///
/// # Errors
/// The name is unknown. The message lists the known names.
pub fn by(name: &str) -> Result<By, String> {
    let known = || all_by().collect::<Vec<_>>().join(", ");
    ByArg::from_str(name, false)
        .map(Into::into)
        .map_err(|_| format!("cannot group by {name:?}; use one of {}", known()))
}

/// The names of all grouping keys.
pub(crate) fn all_by() -> impl Iterator<Item = String> {
    let names = ByArg::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    names.map(|name| name.get_name().to_owned())
}

/// Check memory budgets: peaks, growth over a baseline, leaks, out-of-memory failures
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("budgets").required(true).multiple(true).args(BUDGETS)),
    after_help = "Examples:
  vramscope check snapshot.pickle --max-peak 40GiB --no-leaks --no-oom
  vramscope check snapshot.pickle --baseline main.pickle --max-growth 5%
  vramscope check snapshot.pickle --max-reserved 44GiB --junit memory.xml

Exit code 1: a budget is exceeded, or the recording cannot show whether it is kept."
)]
pub(crate) struct CheckArgs {
    /// A recording, as for `report`; `-` is standard input
    pub(crate) file: PathBuf,
    /// Limit on the peak of allocated bytes of each device, as 40GiB or in bytes
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) max_peak: Option<u64>,
    /// Limit on the peak of reserved bytes of each device
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) max_reserved: Option<u64>,
    /// Limit on the peak of one category, as activation=20GiB; may be given several times
    #[arg(long, value_name = "CATEGORY=SIZE", value_parser = category_limit)]
    pub(crate) max_category: Vec<(Category, u64)>,
    /// Compare with this recording: the peaks of allocated and reserved bytes must not exceed its peaks, device by device
    #[arg(long, value_name = "OLD")]
    pub(crate) baseline: Option<PathBuf>,
    /// Allowed growth over the baseline, as 64MiB or 5% [default: 0]
    #[arg(
        long,
        value_name = "SIZE|PERCENT",
        value_parser = growth,
        requires = "baseline",
        allow_hyphen_values = true
    )]
    pub(crate) max_growth: Option<Growth>,
    /// Fail if a line is suspected of a leak
    #[arg(long)]
    pub(crate) no_leaks: bool,
    /// Fail if a request ran out of memory
    #[arg(long)]
    pub(crate) no_oom: bool,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
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

/// Parses `activation=20GiB`.
fn category_limit(text: &str) -> Result<(Category, u64), String> {
    let known = || Category::ALL.map(Category::name).join(", ");
    let (name, limit) = text.split_once('=').ok_or("expected CATEGORY=SIZE, as activation=20GiB")?;
    let category =
        Category::named(name).ok_or_else(|| format!("unknown category; use one of {}", known()))?;
    Ok((category, size(limit)?))
}

/// Parses `64MiB`, a number of bytes, or `5%` of the baseline.
fn growth(text: &str) -> Result<Growth, String> {
    if !text.ends_with('%') {
        return size(text).map(Growth::Bytes).map_err(|e| format!("{e}; or give a percentage, as 5%"));
    }
    self::percent(text).map(Growth::Percent)
}

/// Upper bound of percentages: a larger one would not limit anything.
const MOST_PERCENT: f64 = 1e6;

/// Replay the recording under other allocator settings or on another device size: would it have fit?
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope replay snapshot.pickle
  vramscope replay snapshot.pickle --gpu a100-40gb --overhead 600MiB
  vramscope replay snapshot.pickle --conf expandable_segments:True --capacity 24GiB
  vramscope replay snapshot.pickle --sweep max_split_size_mb=32..512
  vramscope replay snapshot.pickle --find-capacity

Exit code 1: the replay runs out of memory.")]
pub(crate) struct ReplayArgs {
    /// A recording, as for `report`; `-` is standard input
    pub(crate) file: PathBuf,
    /// Replay under these settings, in the syntax of PYTORCH_CUDA_ALLOC_CONF [default: the recorded settings, compared
    /// with others]
    #[arg(long, value_name = "CONF")]
    pub(crate) conf: Option<String>,
    /// Total memory of the device, as 80GiB or in bytes [default: inferred from the recorded out-of-memory failure]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) capacity: Option<u64>,
    /// Total memory of the device, by GPU name, as a100-40gb
    #[arg(long, value_name = "NAME", value_parser = gpu, conflicts_with = "capacity")]
    pub(crate) gpu: Option<u64>,
    /// Device memory that the allocator cannot use: CUDA contexts, other processes
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    pub(crate) overhead: u64,
    /// The PyTorch release that made the recording [default: inferred from the recording]
    #[arg(long, value_name = "VERSION")]
    pub(crate) torch: Option<TorchRelease>,
    /// Compare values of one setting: `KEY=A..B` doubles integers and adds 0.1 to fractions, `KEY=A,B,C` lists values
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "find_capacity")]
    pub(crate) sweep: Option<Sweep>,
    /// Find the smallest device on which the run fits
    #[arg(long, conflicts_with_all = ["capacity", "gpu"])]
    pub(crate) find_capacity: bool,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// Options for reading recordings, shared by all subcommands that read them.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ReadArgs {
    /// Limit on the decompressed size of a recording, as 80GiB, in bytes or `unlimited` [default: 16 MiB plus 250 times
    /// its compressed size]
    #[arg(long, value_name = "SIZE", value_parser = expansion)]
    max_expanded: Option<u64>,
}

impl ReadArgs {
    pub(crate) fn options(self) -> ReadOptions {
        ReadOptions { expanded_bytes: self.max_expanded, ..ReadOptions::default() }
    }
}

/// Parses a [`size`], or `unlimited`.
fn expansion(text: &str) -> Result<u64, String> {
    if text == "unlimited" { Ok(u64::MAX) } else { size(text) }
}

/// Parses a size in bytes, as [`parse_bytes`] does.
///
/// # Errors
/// The text is not a size, or the size is more than 1 PiB.
pub fn size(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Ok(size) if size > LARGEST => Err("more than 1 PiB".to_owned()),
        Ok(size) => Ok(size),
        Err(why) => Err(why.to_string()),
    }
}

/// Upper bound for sizes, in bytes; no device is larger.
const LARGEST: u64 = 1 << 50;

/// File name endings that are not snapshots, in addition to those of [`ExportFormat`].
const OTHER_ENDINGS: [&str; 6] = [".gz", ".html", ".jsonl", ".txt", ".vramscope", ".zst"];

/// Whether the file name has the ending of a format other than a snapshot (an uncompressed pickle).
pub fn names_another_format(file: &Path) -> bool {
    let name = file.to_string_lossy().to_ascii_lowercase();
    let other = ExportFormat::of_file_name(&name).is_some_and(|format| format != ExportFormat::Pickle);
    other || OTHER_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Checks that the name of an output file fits a snapshot.
fn snapshot_file(file: PathBuf) -> Result<PathBuf, String> {
    if names_another_format(&file) {
        return Err("recordings are written as pickle: use a name that ends in .pickle or .pkl; `vramscope export` writes other formats".to_owned());
    }
    Ok(file)
}

/// The memory of a GPU in bytes, by its name.
///
/// # Errors
/// The name is unknown. The message lists the known names.
pub fn gpu(name: &str) -> Result<u64, String> {
    known_gpu(name)
        .map(|gpu| gpu.total_bytes)
        .map_err(|known| format!("{known}; for other GPUs, use --capacity"))
}

/// The profile of a GPU, for phantom GPUs.
fn phantom_gpu(name: &str) -> Result<&'static Gpu, String> {
    known_gpu(name).map_err(|known| format!("{known}; for other GPUs, also give --memory"))
}

fn known_gpu(name: &str) -> Result<&'static Gpu, String> {
    gpus::find(name).ok_or_else(|| {
        let names: Vec<&str> = gpus::GPUS.iter().map(|gpu| gpu.name).collect();
        let lines: Vec<String> = names.chunks(8).map(|line| line.join(", ")).collect();
        format!("unknown GPU; use one of {}", lines.join(",\n  "))
    })
}

/// Values of one setting.
#[derive(Debug, Clone)]
pub(crate) struct Sweep {
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
}

/// Limit on the number of values of a range.
const MOST_VALUES: usize = 64;

impl std::str::FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or("expected KEY=A..B or KEY=A,B,C")?;
        let values = match values.split_once("..") {
            None if values.contains('[') => vec![values.to_owned()],
            None => {
                let mut seen = std::collections::BTreeSet::new();
                values.split(',').map(|v| v.trim().to_owned()).filter(|v| seen.insert(v.clone())).collect()
            }
            Some((from, to)) => range(from.trim(), to.trim())?,
        };
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

/// The values from `from` to `to`: integers doubled, fractions in steps of 0.1.
fn range(from: &str, to: &str) -> Result<Vec<String>, String> {
    let backwards = || format!("{from} is not below {to}");
    if let (Ok(first), Ok(last)) = (from.parse::<u64>(), to.parse::<u64>()) {
        if first >= last {
            return Err(backwards());
        }
        let doubled = std::iter::successors(Some(first.max(1)), |n| n.checked_mul(2));
        let mut values: Vec<u64> = doubled.take_while(|&n| n < last).collect();
        values.push(last);
        return Ok(values.iter().map(u64::to_string).collect());
    }
    let hundredths = |s: &str| {
        s.parse::<f64>().ok().filter(|x| (0.0..=1e6).contains(x)).map(|x| (x * 100.0).round() as u64)
    };
    let (Some(first), Some(last)) = (hundredths(from), hundredths(to)) else {
        return Err(format!("{from}..{to} is not a range of numbers; list values as A,B,C"));
    };
    if first >= last {
        return Err(backwards());
    }
    let values: Vec<u64> = (first..last).step_by(10).chain([last]).take(MOST_VALUES + 1).collect();
    if values.len() > MOST_VALUES {
        return Err(format!("{from}..{to} has more than {MOST_VALUES} values in steps of 0.1"));
    }
    Ok(values.iter().map(|n| format!("{}", *n as f64 / 100.0)).collect())
}

/// Explore recordings in the browser: every allocation over time, at any size
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope view snapshot.pickle
  vramscope view before.pickle after.pickle
  vramscope view snapshot.pickle --html page.html

The page is served on this machine only, under a secret address, until Ctrl-C. Starting a browser puts the address into the
process list, where other users of the machine may see it; --no-open starts no browser.")]
pub(crate) struct ViewArgs {
    /// Recordings, as for `report`; `-` is standard input. With none, files can be dropped onto the page
    pub(crate) files: Vec<PathBuf>,
    /// Write one self-contained page that opens from disk, instead of serving; `-` is standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
    /// The port to serve on [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true,
        conflicts_with = "html"
    )]
    pub(crate) port: u16,
    /// Print the address and do not open a browser
    #[arg(long, conflicts_with = "html")]
    pub(crate) no_open: bool,
    /// Print the address, or the written file, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

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
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<FormatArg>,
    /// Output file, replaced only when all is written; a folder for a dataset [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// The table for csv and parquet [default: events]; for a dataset also several, as events,holders, and summary
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) what: Vec<TableArg>,
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

/// An export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Chrome,
    Pprof,
    Folded,
    Flamegraph,
    Csv,
    Parquet,
    Pickle,
}

impl From<FormatArg> for ExportFormat {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Chrome => Self::Chrome,
            FormatArg::Pprof => Self::Pprof,
            FormatArg::Folded => Self::Folded,
            FormatArg::Flamegraph => Self::Flamegraph,
            FormatArg::Csv => Self::Csv,
            FormatArg::Parquet => Self::Parquet,
            FormatArg::Pickle => Self::Pickle,
        }
    }
}

/// A table of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableArg {
    Events,
    Allocations,
    Segments,
    Holders,
    // For datasets only.
    Summary,
}

impl TableArg {
    /// The table of one recording; `None` for `summary`.
    pub(crate) fn table(self) -> Option<Table> {
        match self {
            Self::Events => Some(Table::Events),
            Self::Allocations => Some(Table::Allocations),
            Self::Segments => Some(Table::Segments),
            Self::Holders => Some(Table::Holders),
            Self::Summary => None,
        }
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.table().map_or("summary", Table::name)
    }
}

/// Report all ranks of a job: which ranks differ and why, which ran out of memory first, which leak
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("fleet_budgets").multiple(true).args(["max_peak", "max_imbalance"])), after_help = "Examples:
  vramscope fleet recordings/
  vramscope fleet 'runs/*/rank*.pickle' --gpu a100-80gb
  vramscope fleet recordings/ --rank 'gpu(\\d+)' --json
  vramscope fleet recordings/ --view
  vramscope fleet recordings/ --max-peak 72GiB --max-imbalance 5% --junit memory.xml

Exit code 1: a budget is exceeded, or the recordings cannot show whether it is kept.")]
pub(crate) struct FleetArgs {
    /// Folders with recordings, patterns as 'runs/*/rank*.pickle', or recordings
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Pattern whose first group is the rank in a path, as 'rank(\d+)' [default: inferred from differing numbers]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// Total memory of each GPU, as 80GiB or in bytes [default: inferred from a recorded out-of-memory failure]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) capacity: Option<u64>,
    /// Total memory of each GPU, by GPU name, as a100-40gb
    #[arg(long, value_name = "NAME", value_parser = gpu, conflicts_with = "capacity")]
    pub(crate) gpu: Option<u64>,
    /// Limit on the peak of allocated bytes of each rank, as 40GiB or in bytes
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) max_peak: Option<u64>,
    /// Limit on the excess of the highest peak over the mean, as 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true)]
    pub(crate) max_imbalance: Option<f64>,
    /// Also write the verdicts as JUnit XML; with `-`, to standard output in place of the text
    #[arg(long, value_name = "OUT", requires = "fleet_budgets")]
    pub(crate) junit: Option<PathBuf>,
    /// Neither read nor write cached summaries
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Number of recordings read in parallel [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Read the recordings on a cluster; the URL of its scheduler, as df://host:50050
    #[arg(long, value_name = "URL", conflicts_with = "jobs")]
    pub(crate) cluster: Option<String>,
    /// Explore the ranks and their recordings in the browser
    #[arg(long, conflicts_with = "fleet_budgets")]
    pub(crate) view: bool,
    /// With --view: the port to serve on [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, requires = "view")]
    pub(crate) port: u16,
    /// With --view: print the address and do not open a browser
    #[arg(long, requires = "view")]
    pub(crate) no_open: bool,
    /// Print JSON; with --view, print the address as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// Run SQL over the recordings of many ranks
#[derive(Debug, Args)]
#[command(
    after_help = "Tables, each with the columns rank, host and file: events, allocations, segments, holders, summary.

Examples:
  vramscope query 'SELECT rank, peak_allocated_bytes FROM summary ORDER BY 2 DESC LIMIT 5' runs/
  vramscope query \"SELECT key, sum(bytes) FROM holders WHERE grouped_by = 'category' GROUP BY key\" runs/*.pickle
  vramscope query 'SELECT * FROM events WHERE rank = 3' runs/ -o rank3.parquet"
)]
pub(crate) struct QueryArgs {
    /// One read-only SQL statement
    pub(crate) sql: String,
    /// Folders with recordings, patterns as 'runs/*/rank*.pickle', or recordings
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Format of the rows [default: from the ending of OUT, else table]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<QueryFormatArg>,
    /// Output file, replaced only when all is written [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Pattern whose first group is the rank in a path, as for `fleet` [default: inferred from differing numbers]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// Run on a cluster; the URL of its scheduler, as df://host:50050
    #[arg(long, value_name = "URL")]
    pub(crate) cluster: Option<String>,
    /// Neither read nor write cached summaries
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Number of recordings read in parallel [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "cluster")]
    pub(crate) jobs: Option<u16>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The format of query results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryFormatArg {
    Table,
    Csv,
    Json,
    Parquet,
}

/// Run the scheduler of a cluster for `fleet --cluster` and `query --cluster`
#[derive(Debug, Args)]
#[command(
    after_help = "This is the scheduler of Apache Ballista with vramscope's tables. Anyone who can connect to it can make its executors
read recordings: run it only in a network that you trust.

Example:
  vramscope fleet-scheduler --listen 0.0.0.0:50050"
)]
pub(crate) struct FleetSchedulerArgs {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    pub(crate) listen: std::net::SocketAddr,
    /// The host name or address at which executors reach the scheduler
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub(crate) external_host: String,
}

/// Run an executor of a cluster, which reads recordings
#[derive(Debug, Args)]
#[command(
    after_help = "This is an executor of Apache Ballista with vramscope's tables. It resolves paths on its machine, and accesses stores
with the credentials from its environment.

Example:
  vramscope fleet-executor --scheduler scheduler:50050 --listen 0.0.0.0:50051 --external-host $(hostname -i)"
)]
pub(crate) struct FleetExecutorArgs {
    /// The address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050")]
    pub(crate) scheduler: String,
    /// The address to listen on; the executor also uses the next port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051")]
    pub(crate) listen: std::net::SocketAddr,
    /// The host name or address at which others reach the executor [default: the address that the scheduler sees]
    #[arg(long, value_name = "HOST")]
    pub(crate) external_host: Option<String>,
    /// Number of recordings read in parallel [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Folder for partial results until they are fetched [default: a temporary folder, removed at exit]
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
}

/// Parses a regular expression with at least one group.
fn rank_pattern(text: &str) -> Result<Regex, String> {
    let pattern = Regex::new(text).map_err(|e| e.to_string())?;
    if pattern.captures_len() < 2 {
        return Err("the pattern has no group for the number; put the number in parentheses, as rank(\\d+)"
            .to_owned());
    }
    Ok(pattern)
}

/// Parses `5%` or `2.5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    let known = number.filter(|percent| (0.0..=MOST_PERCENT).contains(percent));
    known.ok_or_else(|| format!("expected a percentage, as 5% or 2.5%, from 0% to {MOST_PERCENT}%"))
}

/// Run a program and record the GPU memory that its PyTorch allocates, with categories
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope run -- python train.py
  vramscope run --record run.pickle -- python train.py
  vramscope run --every 60 -- torchrun --nproc-per-node 8 train.py

The Python that runs the program needs the package: pip install vramscope. The exit code is that of the program.")]
pub(crate) struct RunArgs {
    /// File for the recording; each rank writes a separate file, as run-rank3.pickle
    #[arg(
        long,
        value_name = "OUT",
        default_value = "vramscope.pickle",
        value_parser = PathBufValueParser::new().try_map(snapshot_file)
    )]
    pub(crate) record: PathBuf,
    /// Number of events to keep; the newest are kept [default: 500000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_entries: Option<u64>,
    /// Also write the recording at this interval, so that a killed program leaves its last one
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) every: Option<Duration>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Watch a process and log samples of its pool, the GPU and the host at an interval
#[derive(Debug, Args)]
#[command(after_help = "Quantities of --alert:
  device=90%         device memory in use by all processes
  fragmentation=20%  device memory in free blocks that emptying the cache does not release
  growth=1GiB        growth of allocated bytes per minute
  hidden=2GiB        device memory in use outside of the pool

Examples:
  vramscope monitor 4711 --output run.csv
  vramscope monitor 4711 --alert device=90% --duration 60
  vramscope monitor /run/user/1000/vramscope/4711.sock --prometheus 127.0.0.1:9400

It ends with the process, after --duration, or with Ctrl-C. Exit code 1: an alert was raised.")]
pub(crate) struct MonitorArgs {
    /// A process ID, or the socket of a process that serves its pool
    #[arg(value_name = "PID|SOCKET")]
    pub(crate) target: String,
    /// Write every sample and event to this file as it happens
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the log [default: csv if FILE ends in .csv, else jsonl]
    #[arg(long, value_name = "FORMAT", requires = "output")]
    pub(crate) format: Option<LogFormatArg>,
    /// Time between two samples
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.1")]
    pub(crate) interval: Duration,
    /// Stop after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Raise an alert when a quantity reaches a value; may be given several times
    #[arg(long, value_name = "QUANTITY=VALUE")]
    pub(crate) alert: Vec<AlertArg>,
    /// Serve the metrics for Prometheus at this address
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub(crate) prometheus: Option<ListenAddress>,
    /// The GPU index in NVML [default: the GPU of the process]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i32>,
    /// Print the final summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses seconds between two samples of a log: at least 0.001.
fn seconds(text: &str) -> Result<Duration, String> {
    seconds_from(Duration::from_millis(1), text)
}

/// Parses seconds between two updates of a screen: at least 0.1.
fn interval(text: &str) -> Result<Duration, String> {
    seconds_from(Duration::from_millis(100), text)
}

fn seconds_from(least: Duration, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let sensible = least..=Duration::from_hours(24);
    let wrong = || format!("expected {} to 86400 seconds", least.as_secs_f64());
    seconds.filter(|s| sensible.contains(s)).ok_or_else(wrong)
}

/// The format of a log.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogFormatArg {
    Csv,
    Jsonl,
}

impl From<LogFormatArg> for LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Csv => Self::Csv,
            LogFormatArg::Jsonl => Self::JsonLines,
        }
    }
}

/// A limit that raises an alert.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlertArg(pub(crate) Threshold);

impl std::str::FromStr for AlertArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected QUANTITY=VALUE, as device=90%")?;
        let percent = || {
            let number = value.trim().trim_end_matches('%').trim().parse::<f64>().ok();
            number
                .filter(|p| (0.0..=100.0).contains(p))
                .ok_or(format!("`{value}` is not a percentage, as 90%"))
        };
        let (quantity, above) = match name.trim() {
            "device" => (Quantity::DevicePercent, percent()?),
            "fragmentation" => (Quantity::ExternalFragmentationPercent, percent()?),
            "growth" => (Quantity::GrowthPerMinute, size(value)? as f64),
            "hidden" => (Quantity::Hidden, size(value)? as f64),
            name => {
                return Err(format!(
                    "unknown quantity `{name}`; use one of device, fragmentation, growth, hidden"
                ));
            }
        };
        Ok(Self(Threshold::new(quantity, Severity::Warning, above)))
    }
}

/// Show GPUs and running programs: memory in use, peaks since the last update, holders
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope top
  vramscope top --interval 0.2
  vramscope top --json --interval 10 | jq '.programs[].high.allocated_bytes'

GPUs are read through NVML. A program is listed once it serves its pool, in Rust with LiveServer;
docs/live.md describes the protocol.

Keys: q quits, up and down select, Tab shows details, space pauses, ? explains.")]
pub(crate) struct TopArgs {
    /// Seconds between two updates, from 0.1 [default: 1]; with --json, the sampling time in seconds [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Also read this socket, in addition to those in the user's socket folder; may be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Vec<PathBuf>,
    /// Print one sample as JSON and exit
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run a program on phantom GPUs: does it fit, on which GPU, and which change would make it fit?
#[derive(Debug, Args)]
pub(crate) struct PhantomArgs {
    #[command(subcommand)]
    pub(crate) command: PhantomCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PhantomCommand {
    Run(PhantomRunArgs),
    List(PhantomListArgs),
}

/// Run an unchanged program, with the installed PyTorch, on phantom GPUs and report whether it fits
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope phantom run -- python train.py
  vramscope phantom run --gpu rtx4090 --record run.pickle -- python train.py --batch-size 64
  vramscope phantom run --gpu a100-40gb --gpus 8 -- torchrun --nproc-per-node 8 train.py
  vramscope phantom run --world-size 64 --rank 3 -- python train.py
  vramscope phantom run --sweep-gpus -- python train.py

Kernels compute nothing: allocation sizes are those of PyTorch, values are zeros. Exit code 1: the program does not fit, or barely fits.")]
pub(crate) struct PhantomRunArgs {
    /// The GPU, by its name in `vramscope phantom list`
    #[arg(long, value_name = "NAME", value_parser = phantom_gpu, default_value = "h100-80gb")]
    pub(crate) gpu: &'static Gpu,
    /// Total memory of the GPU, as 24GiB [default: from the GPU's profile]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// Device memory of a CUDA context [default: from the GPU's profile]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) context: Option<u64>,
    /// Number of GPUs
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) gpus: u8,
    /// Run the program as one rank of N, given by --rank; the other ranks are simulated
    #[arg(long, value_name = "N", requires = "rank", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) world_size: Option<u32>,
    /// The rank to run, counted from 0
    #[arg(long, value_name = "R", requires = "world_size")]
    pub(crate) rank: Option<u32>,
    /// Write the recording to this file; of several processes, each writes a separate file with `-rank3` or a number in its name
    #[arg(long, value_name = "OUT", value_parser = PathBufValueParser::new().try_map(snapshot_file))]
    pub(crate) record: Option<PathBuf>,
    /// Settings of PyTorch's allocator, in the syntax of PYTORCH_CUDA_ALLOC_CONF
    #[arg(long, value_name = "CONF")]
    pub(crate) conf: Option<String>,
    /// Stop the program after this time with SIGTERM; the steps until then are enough
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) steps_timeout: Option<Duration>,
    /// Values that the program reads from GPU memory without copied data: zeros, or random numbers from a seed, as random=7
    #[arg(long, value_name = "zeros|random[=SEED]", value_parser = values, default_value = "zeros")]
    pub(crate) values: Values,
    /// Do not store copies to a GPU above 64 KiB: they read as zeros and need no host memory
    #[arg(long)]
    pub(crate) no_contents: bool,
    /// Also compare all GPUs; the exit code is for the GPU of --gpu
    #[arg(long)]
    pub(crate) sweep_gpus: bool,
    /// Run the program once: neither without a memory limit after it ran out of memory, nor on other GPUs
    #[arg(long, conflicts_with = "sweep_gpus")]
    pub(crate) once: bool,
    /// Print JSON; the program's standard output goes to stderr
    #[arg(long)]
    pub(crate) json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// List the GPUs that have profiles
#[derive(Debug, Args)]
pub(crate) struct PhantomListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Values that a program reads from memory that no kernel wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Zeros,
    Random(u64),
}

fn values(text: &str) -> Result<Values, String> {
    match text.split_once('=') {
        None if text == "zeros" => Ok(Values::Zeros),
        None if text == "random" => Ok(Values::Random(0)),
        Some(("random", seed)) => {
            seed.parse().map(Values::Random).map_err(|_| format!("`{seed}` is not a seed, as 7"))
        }
        _ => Err("expected zeros, random or random=SEED".to_owned()),
    }
}

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
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Compare at the peaks of step N (counted from 1) instead of at the peaks of the recordings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) at_step: Option<u32>,
    /// Rows of each list [default: 10; with --json all]
    #[arg(long, value_name = "N", conflicts_with = "json")]
    pub(crate) top: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

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

/// Serve recordings to an AI assistant over the Model Context Protocol
#[derive(Debug, Args)]
#[command(after_help = "An assistant starts this command. Its configuration:
  {\"mcpServers\": {\"vramscope\": {\"command\": \"vramscope\", \"args\": [\"mcp\", \"--allow\", \"runs\"]}}}

It speaks JSON-RPC on standard input and output. It reads recordings and writes no files.")]
pub(crate) struct McpArgs {
    /// A folder whose recordings may be read, including its subfolders; may be given several times [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) allow: Vec<PathBuf>,
    /// Approximate limit on the memory of all open recordings together
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4GiB")]
    pub(crate) max_memory: u64,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  vramscope completions bash > ~/.local/share/bash-completion/completions/vramscope")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
    /// Print the script inside JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, CommandFactory as _};

    use super::*;

    /// Texts with their sizes in bytes; `None` for texts that are not sizes.
    fn sizes() -> Vec<(&'static str, Option<u64>)> {
        let lines = include_str!("../../vramscope-basics/sizes.txt").lines();
        let rows = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('|'));
        rows.map(|(text, bytes)| (text, bytes.parse().ok())).collect()
    }

    /// Collects the options of a command and its subcommands that take a size, named as `replay --capacity`.
    fn size_options(command: &Command, found: &mut Vec<(String, Arg)>) {
        let is_size = |arg: &&Arg| arg.get_value_names().is_some_and(|names| names[0] == "SIZE");
        let name = |arg: &Arg| format!("{} --{}", command.get_name(), arg.get_id());
        found.extend(command.get_arguments().filter(is_size).map(|arg| (name(arg), arg.clone())));
        command.get_subcommands().for_each(|below| size_options(below, found));
    }

    #[test]
    fn every_option_reads_the_same_sizes() {
        let mut options = Vec::new();
        size_options(&Cli::command(), &mut options);
        assert!(options.len() > 10, "{options:?}");
        for (name, option) in options {
            let alone = Arg::new("size").long("size").value_parser(option.get_value_parser().clone());
            let command = Command::new("test").arg(alone);
            for (text, bytes) in sizes() {
                let read = command.clone().try_get_matches_from(["test", &format!("--size={text}")]);
                let read = read.ok().and_then(|matches| matches.get_one::<u64>("size").copied());
                assert_eq!(read, bytes, "{name} {text}");
            }
        }
    }

    #[test]
    fn what_is_no_size_alone_reads_the_same_sizes() {
        for (text, bytes) in sizes() {
            let limit = category_limit(&format!("activation={text}")).ok();
            assert_eq!(limit, bytes.map(|bytes| (Category::Activation, bytes)), "{text}");
            let grown = growth(text).ok();
            assert_eq!(grown, bytes.map(Growth::Bytes), "{text}");
            let alert = format!("hidden={text}").parse::<AlertArg>().ok();
            assert_eq!(alert.map(|AlertArg(of)| of.above), bytes.map(|bytes| bytes as f64), "{text}");
        }
    }
}
