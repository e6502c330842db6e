//! What can be written on the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use regex::Regex;
use vramscope::allocator::TorchRelease;
use vramscope::analysis::{By, Growth};
use vramscope::export::{Format, Table};
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

/// What a snapshot holds: the peak and who held it, leaks, fragmentation, out of memory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope report snapshot.pickle
  vramscope report snapshot.pickle --by function --top 20
  vramscope report snapshot.pickle --at 1200 --filter 'model\\.py'
  zstdcat big.pickle.zst | vramscope report - --json")]
pub(crate) struct ReportArgs {
    /// A snapshot of PyTorch's, as pickle or JSON, or a log of `monitor` or a tracker, also compressed with gzip or
    /// zstd; `-` is standard input
    pub(crate) file: PathBuf,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Look at what is live after event number EVENT, from 0, instead of at the peak; or, as FIRST..LAST, at what these
    /// events and those between them allocated and freed
    #[arg(long, value_name = "EVENT", value_parser = at)]
    pub(crate) at: Option<AtArg>,
    /// Group what is live, instead of showing the tree of calls
    #[arg(long)]
    pub(crate) by: Option<ByArg>,
    /// Only stacks with a frame that matches, as `file:line function`
    #[arg(long, value_name = "REGEX")]
    pub(crate) filter: Option<Regex>,
    /// Rows of each list [default: 10; with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Show every frame below each row, instead of the tree of the user's calls
    #[arg(long)]
    pub(crate) full_stacks: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// Where a report looks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AtArg {
    /// After an event.
    Event(usize),
    /// From one event to another, both included.
    Events(usize, usize),
}

fn at(text: &str) -> Result<AtArg, String> {
    let number = |text: &str| {
        text.parse::<usize>().map_err(|_| "it is the number of an event, or two as 10..99".to_owned())
    };
    let Some((first, last)) = text.split_once("..") else { return Ok(AtArg::Event(number(text)?)) };
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("event {last} is before event {first}: the range holds none"));
    }
    Ok(AtArg::Events(first, last))
}

/// What live memory is grouped by.
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

/// What live memory is grouped by, as for `--by`.
///
/// # Errors
/// In words for whoever wrote it, with the names that are known.
pub fn by(name: &str) -> Result<By, String> {
    let known = || all_by().collect::<Vec<_>>().join(", ");
    ByArg::from_str(name, false)
        .map(Into::into)
        .map_err(|_| format!("nothing is grouped by {name:?}; known are {}", known()))
}

/// All that live memory can be grouped by.
pub(crate) fn all_by() -> impl Iterator<Item = String> {
    let names = ByArg::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    names.map(|name| name.get_name().to_owned())
}

/// Whether a recording keeps its memory budgets: peaks, growth over a baseline, leaks, out of memory
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("budgets").required(true).multiple(true).args(BUDGETS)),
    after_help = "Examples:
  vramscope check snapshot.pickle --max-peak 40GiB --no-leaks --no-oom
  vramscope check snapshot.pickle --baseline main.pickle --max-growth 5%
  vramscope check snapshot.pickle --max-reserved 44GiB --junit memory.xml

Exit code 1 says that a budget is exceeded, or that the recording does not tell whether it is kept."
)]
pub(crate) struct CheckArgs {
    /// A recording, as for `report`; `-` is standard input
    pub(crate) file: PathBuf,
    /// The most allocated bytes at any moment, of each device, as 40GiB or in bytes
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) max_peak: Option<u64>,
    /// The most reserved bytes at any moment, of each device
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) max_reserved: Option<u64>,
    /// The most bytes that are for one thing at any moment, as activation=20GiB; may be given several times
    #[arg(long, value_name = "CATEGORY=SIZE", value_parser = category_limit)]
    pub(crate) max_category: Vec<(Category, u64)>,
    /// Another recording: the peaks of allocated and of reserved bytes may not be above its own, device by device
    #[arg(long, value_name = "OLD")]
    pub(crate) baseline: Option<PathBuf>,
    /// How far they may be above it, as 64MiB or 5% [default: 0]
    #[arg(
        long,
        value_name = "SIZE|PERCENT",
        value_parser = growth,
        requires = "baseline",
        allow_hyphen_values = true
    )]
    pub(crate) max_growth: Option<Growth>,
    /// No line may be suspected of a leak
    #[arg(long)]
    pub(crate) no_leaks: bool,
    /// No request may have failed
    #[arg(long)]
    pub(crate) no_oom: bool,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Also write the verdicts as JUnit XML; `-` is standard output, which then holds nothing else
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

/// `activation=20GiB`.
fn category_limit(text: &str) -> Result<(Category, u64), String> {
    let known = || Category::ALL.map(Category::name).join(", ");
    let (name, limit) = text.split_once('=').ok_or("a budget of a category is as activation=20GiB")?;
    let category = Category::named(name).ok_or_else(|| format!("no such category; there are {}", known()))?;
    Ok((category, size(limit)?))
}

/// `64MiB`, a number of bytes, or `5%` of what the baseline has.
fn growth(text: &str) -> Result<Growth, String> {
    if !text.ends_with('%') {
        return size(text).map(Growth::Bytes).map_err(|e| format!("{e}; or it is a part, as 5%"));
    }
    self::percent(text).map(Growth::Percent)
}

/// A peak that may grow further is not held to anything.
const MOST_PERCENT: f64 = 1e6;

/// The same history under other allocator settings, or on a device of another size: would it have fit?
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope replay snapshot.pickle
  vramscope replay snapshot.pickle --gpu a100-40gb --overhead 600MiB
  vramscope replay snapshot.pickle --conf expandable_segments:True --capacity 24GiB
  vramscope replay snapshot.pickle --sweep max_split_size_mb=32..512
  vramscope replay snapshot.pickle --find-capacity

Exit code 1 says that the run would be out of memory.")]
pub(crate) struct ReplayArgs {
    /// A recording, as for `report`; `-` is standard input
    pub(crate) file: PathBuf,
    /// Replay under these settings, written as for PYTORCH_CUDA_ALLOC_CONF [default: the recorded ones, compared
    /// with others]
    #[arg(long, value_name = "CONF")]
    pub(crate) conf: Option<String>,
    /// The device's whole memory, as 80GiB or in bytes [default: what the recording shows where it ran out]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) capacity: Option<u64>,
    /// The device's whole memory by the name of a GPU, as a100-40gb
    #[arg(long, value_name = "NAME", value_parser = gpu, conflicts_with = "capacity")]
    pub(crate) gpu: Option<u64>,
    /// What of the device the allocator cannot have: contexts, other processes
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    pub(crate) overhead: u64,
    /// The release of PyTorch that made the recording [default: as it shows]
    #[arg(long, value_name = "VERSION")]
    pub(crate) torch: Option<TorchRelease>,
    /// Compare values of one setting: `KEY=A..B` doubles whole numbers and adds 0.1 to fractions, `KEY=A,B,C`
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "find_capacity")]
    pub(crate) sweep: Option<Sweep>,
    /// Find the smallest device on which it fits
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

/// How recordings are read, the same for every subcommand that reads them.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ReadArgs {
    /// How far a compressed recording may expand, as 80GiB, in bytes or `unlimited` [default: 16 MiB and 250 times
    /// its compressed bytes]
    #[arg(long, value_name = "SIZE", value_parser = expansion)]
    max_expanded: Option<u64>,
}

impl ReadArgs {
    pub(crate) fn options(self) -> ReadOptions {
        ReadOptions { expanded_bytes: self.max_expanded, ..ReadOptions::default() }
    }
}

/// A [`size`], or `unlimited`.
fn expansion(text: &str) -> Result<u64, String> {
    if text == "unlimited" { Ok(u64::MAX) } else { size(text) }
}

/// The bytes of a size, as [`parse_bytes`] reads it.
///
/// # Errors
/// In words for whoever wrote it: where the text is no size, and where it is more than 1 PiB.
pub fn size(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Ok(size) if size > LARGEST => Err("more than 1 PiB".to_owned()),
        Ok(size) => Ok(size),
        Err(why) => Err(why.to_string()),
    }
}

/// No device is larger.
const LARGEST: u64 = 1 << 50;

/// Endings of names of files that are no snapshot, beside those of [`Format`].
const OTHER_ENDINGS: [&str; 6] = [".gz", ".html", ".jsonl", ".txt", ".vramscope", ".zst"];

/// Whether the name of a file promises another format than that of a snapshot, which is a plain pickle.
pub fn names_another_format(file: &Path) -> bool {
    let name = file.to_string_lossy().to_ascii_lowercase();
    let other = Format::of_file_name(&name).is_some_and(|format| format != Format::Pickle);
    other || OTHER_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The file that a snapshot is recorded to.
fn snapshot_file(file: PathBuf) -> Result<PathBuf, String> {
    if names_another_format(&file) {
        return Err("a recording is a pickle: end its name in .pickle or .pkl; `vramscope export` writes other formats".to_owned());
    }
    Ok(file)
}

/// The memory of a GPU in bytes, by its name.
///
/// # Errors
/// In words for whoever wrote it, with the names that are known.
pub fn gpu(name: &str) -> Result<u64, String> {
    known_gpu(name).map(|gpu| gpu.total_bytes).map_err(|known| format!("{known}; for others give --capacity"))
}

/// A card that phantoms have a profile of.
fn phantom_gpu(name: &str) -> Result<&'static Gpu, String> {
    known_gpu(name).map_err(|known| format!("{known}; for others give --memory, too"))
}

fn known_gpu(name: &str) -> Result<&'static Gpu, String> {
    gpus::find(name).ok_or_else(|| {
        let names: Vec<&str> = gpus::GPUS.iter().map(|gpu| gpu.name).collect();
        let lines: Vec<String> = names.chunks(8).map(|line| line.join(", ")).collect();
        format!("known are {}", lines.join(",\n  "))
    })
}

/// Values of one setting.
#[derive(Debug, Clone)]
pub(crate) struct Sweep {
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
}

/// The most values of a range.
const MOST_VALUES: usize = 64;

impl std::str::FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or("it is KEY=A..B or KEY=A,B,C")?;
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

/// The values from `from` to `to`: whole numbers doubled, fractions in steps of a tenth.
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
        return Err(format!("{from}..{to} is no range of numbers; list values as A,B,C"));
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

The page is served to this machine alone, under an address with a secret, until Ctrl-C. Other users of the machine may see
the address in the list of processes when a browser is started with it; --no-open starts none.")]
pub(crate) struct ViewArgs {
    /// Recordings, as for `report`; `-` is standard input. Without any, files can be dropped onto the page
    pub(crate) files: Vec<PathBuf>,
    /// Write one page with everything in it, which opens from disk, instead of serving; `-` is standard output
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
    /// Print the address and open no browser
    #[arg(long, conflicts_with = "html")]
    pub(crate) no_open: bool,
    /// Print the address, or what was written, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The recording in the format of another tool
#[derive(Debug, Args)]
#[command(after_help = "Formats, the file names that stand for them, and what opens them:
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
    /// A recording, as for `report`; `-` is standard input. Several, folders, patterns and what lies in stores become a
    /// dataset of Parquet files, partitioned by rank
    #[arg(required = true, value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// The format [default: as the name of OUT says]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<FormatArg>,
    /// Where to write; replaced only once all is written [default: standard output]. Of a dataset a folder
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// The table, for csv and parquet [default: events]; of a dataset several, as events,holders, and summary
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) what: Vec<TableArg>,
    /// Of a dataset: where a path names the rank, as for `fleet` [default: where numbers differ]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// What is live after event number EVENT, from 0, instead of at the peak; for pprof, folded and flamegraph
    #[arg(long, value_name = "EVENT")]
    pub(crate) at: Option<usize>,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Print what was written, as JSON; needs --output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The format of another tool.
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

impl From<FormatArg> for Format {
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
    // Of a dataset alone.
    Summary,
}

impl TableArg {
    /// The table of one recording.
    pub(crate) fn table(self) -> Option<Table> {
        match self {
            Self::Events => Some(Table::Events),
            Self::Allocations => Some(Table::Allocations),
            Self::Segments => Some(Table::Segments),
            Self::Holders => Some(Table::Holders),
            Self::Summary => None,
        }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.table().map_or("summary", Table::name)
    }
}

/// All ranks of a job as one: which are different and why, who ran out of memory first, what leaks where
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("fleet_budgets").multiple(true).args(["max_peak", "max_imbalance"])), after_help = "Examples:
  vramscope fleet recordings/
  vramscope fleet 'runs/*/rank*.pickle' --gpu a100-80gb
  vramscope fleet recordings/ --rank 'gpu(\\d+)' --json
  vramscope fleet recordings/ --view
  vramscope fleet recordings/ --max-peak 72GiB --max-imbalance 5% --junit memory.xml

Exit code 1 says that a budget is exceeded, or that the recordings do not tell whether it is kept.")]
pub(crate) struct FleetArgs {
    /// Folders with recordings, patterns as 'runs/*/rank*.pickle', or recordings
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Where a path names the rank: the first group is the number, as 'rank(\d+)' [default: where numbers differ]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// The memory of the cards, as 80GiB or in bytes [default: what a recording shows where it ran out]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) capacity: Option<u64>,
    /// The memory of the cards by the name of a GPU, as a100-40gb
    #[arg(long, value_name = "NAME", value_parser = gpu, conflicts_with = "capacity")]
    pub(crate) gpu: Option<u64>,
    /// The most allocated bytes at any moment, of each rank, as 40GiB or in bytes
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) max_peak: Option<u64>,
    /// How far the highest peak may be above the mean, as 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true)]
    pub(crate) max_imbalance: Option<f64>,
    /// Also write the verdicts as JUnit XML; `-` is standard output, which then holds nothing else
    #[arg(long, value_name = "OUT", requires = "fleet_budgets")]
    pub(crate) junit: Option<PathBuf>,
    /// Neither keep summaries in the cache folder nor take them from there
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// How many recordings are read at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Let a cluster read the recordings, by its scheduler, as df://host:50050
    #[arg(long, value_name = "URL", conflicts_with = "jobs")]
    pub(crate) cluster: Option<String>,
    /// Explore the ranks in the browser, and from there the recording of each
    #[arg(long, conflicts_with = "fleet_budgets")]
    pub(crate) view: bool,
    /// With --view: the port to serve on [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, requires = "view")]
    pub(crate) port: u16,
    /// With --view: print the address and open no browser
    #[arg(long, requires = "view")]
    pub(crate) no_open: bool,
    /// Print JSON; with --view the address as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// Answer SQL over the recordings of many ranks
#[derive(Debug, Args)]
#[command(
    after_help = "Tables, each with rank, host and file: events, allocations, segments, holders, summary.

Examples:
  vramscope query 'SELECT rank, peak_allocated_bytes FROM summary ORDER BY 2 DESC LIMIT 5' runs/
  vramscope query \"SELECT key, sum(bytes) FROM holders WHERE grouped_by = 'category' GROUP BY key\" runs/*.pickle
  vramscope query 'SELECT * FROM events WHERE rank = 3' runs/ -o rank3.parquet"
)]
pub(crate) struct QueryArgs {
    /// What to ask: one statement that reads
    pub(crate) sql: String,
    /// Folders with recordings, patterns as 'runs/*/rank*.pickle', or recordings
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// How rows are written [default: as the name of OUT says, else table]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<QueryFormatArg>,
    /// Where to write; replaced only once all is written [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Where a path names the rank, as for `fleet` [default: where numbers differ]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// Let a cluster do the work, by its scheduler, as df://host:50050
    #[arg(long, value_name = "URL")]
    pub(crate) cluster: Option<String>,
    /// Neither keep summaries nor take them from where they are kept
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// How many recordings are read at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "cluster")]
    pub(crate) jobs: Option<u16>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// How the rows of an answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryFormatArg {
    Table,
    Csv,
    Json,
    Parquet,
}

/// Schedule the work of a cluster for `fleet --cluster` and `query --cluster`
#[derive(Debug, Args)]
#[command(
    after_help = "It is the scheduler of Apache Ballista, which knows our tables. Anyone who reaches it can let its executors
read recordings: keep it in a network that you trust.

Example:
  vramscope fleet-scheduler --listen 0.0.0.0:50050"
)]
pub(crate) struct FleetSchedulerArgs {
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    pub(crate) listen: std::net::SocketAddr,
    /// The name or address by which executors reach it
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub(crate) external_host: String,
}

/// Read recordings for a cluster
#[derive(Debug, Args)]
#[command(
    after_help = "It is an executor of Apache Ballista, which knows our tables. It reads paths as they are on its own machine, and stores
with the credentials of its own environment.

Example:
  vramscope fleet-executor --scheduler scheduler:50050 --listen 0.0.0.0:50051 --external-host $(hostname -i)"
)]
pub(crate) struct FleetExecutorArgs {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050")]
    pub(crate) scheduler: String,
    /// The address to listen at; the port behind it is used, too
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051")]
    pub(crate) listen: std::net::SocketAddr,
    /// The name or address by which others reach it [default: as the scheduler sees it]
    #[arg(long, value_name = "HOST")]
    pub(crate) external_host: Option<String>,
    /// How many recordings are read at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Where parts of answers lie until they are fetched [default: a folder that goes with the program]
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
}

/// A pattern with a group.
fn rank_pattern(text: &str) -> Result<Regex, String> {
    let pattern = Regex::new(text).map_err(|e| e.to_string())?;
    if pattern.captures_len() < 2 {
        return Err("it has no group that is the number; put it in brackets, as rank(\\d+)".to_owned());
    }
    Ok(pattern)
}

/// `5%`, or `2.5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    let known = number.filter(|percent| (0.0..=MOST_PERCENT).contains(percent));
    known.ok_or_else(|| format!("a part is as 5% or 2.5%, from 0% to {MOST_PERCENT}%"))
}

/// Run a program and record what its PyTorch does with memory, and what for
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope run -- python train.py
  vramscope run --record run.pickle -- python train.py
  vramscope run --every 60 -- torchrun --nproc-per-node 8 train.py

The Python that runs the program needs the package: pip install vramscope. The exit code is the program's own.")]
pub(crate) struct RunArgs {
    /// Where the recording goes; each rank has its own, as run-rank3.pickle
    #[arg(
        long,
        value_name = "OUT",
        default_value = "vramscope.pickle",
        value_parser = PathBufValueParser::new().try_map(snapshot_file)
    )]
    pub(crate) record: PathBuf,
    /// How many events are kept, the newest [default: 500000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_entries: Option<u64>,
    /// Write the recording every so often, too: what is killed leaves the last one
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) every: Option<Duration>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Watch a process and keep a log: what its pool, the GPU and the host say, at intervals
#[derive(Debug, Args)]
#[command(after_help = "Quantities of --alert:
  device=90%         of the device in use, by anyone
  fragmentation=20%  of the device free between blocks, which emptying the cache does not give back
  growth=1GiB        a minute, of what stays allocated
  hidden=2GiB        in use on the device, outside of the pool

Examples:
  vramscope monitor 4711 --output run.csv
  vramscope monitor 4711 --alert device=90% --duration 60
  vramscope monitor /run/user/1000/vramscope/4711.sock --prometheus 127.0.0.1:9400

It ends with the process, after --duration, or with Ctrl-C. Exit code 1 says that there was an alert.")]
pub(crate) struct MonitorArgs {
    /// The number of a process, or the socket of one that serves its pool
    #[arg(value_name = "PID|SOCKET")]
    pub(crate) target: String,
    /// Write every sample and event there, at once
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// How they are written [default: csv where FILE ends in .csv, else jsonl]
    #[arg(long, value_name = "FORMAT", requires = "output")]
    pub(crate) format: Option<LogFormatArg>,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.1")]
    pub(crate) interval: Duration,
    /// End after so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Raise an alert where a quantity reaches a value; may be given several times
    #[arg(long, value_name = "QUANTITY=VALUE")]
    pub(crate) alert: Vec<AlertArg>,
    /// Serve the metrics for Prometheus there
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub(crate) prometheus: Option<ListenAddress>,
    /// The GPU, as NVML numbers them [default: the one that the process is on]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i32>,
    /// Print the summary at the end as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Seconds that make sense between two looks, for a log.
fn seconds(text: &str) -> Result<Duration, String> {
    seconds_from(Duration::from_millis(1), text)
}

/// Seconds that make sense between two looks, for a screen that a person reads.
fn interval(text: &str) -> Result<Duration, String> {
    seconds_from(Duration::from_millis(100), text)
}

fn seconds_from(least: Duration, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let sensible = least..=Duration::from_hours(24);
    let wrong = || format!("it is {} to 86400 seconds", least.as_secs_f64());
    seconds.filter(|s| sensible.contains(s)).ok_or_else(wrong)
}

/// The form of a log.
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

/// A value that a quantity should not reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlertArg(pub(crate) Threshold);

impl std::str::FromStr for AlertArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("it is QUANTITY=VALUE, as device=90%")?;
        let percent = || {
            let number = value.trim().trim_end_matches('%').trim().parse::<f64>().ok();
            number.filter(|p| (0.0..=100.0).contains(p)).ok_or(format!("`{value}` is no percentage, as 90%"))
        };
        let (quantity, above) = match name.trim() {
            "device" => (Quantity::DevicePercent, percent()?),
            "fragmentation" => (Quantity::ExternalFragmentationPercent, percent()?),
            "growth" => (Quantity::GrowthPerMinute, size(value)? as f64),
            "hidden" => (Quantity::Hidden, size(value)? as f64),
            name => {
                return Err(format!("`{name}` is none of device, fragmentation, growth, hidden"));
            }
        };
        Ok(Self(Threshold::new(quantity, Severity::Warning, above)))
    }
}

/// GPUs and running programs: what they hold, their highest since the last look, who holds it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope top
  vramscope top --interval 0.2
  vramscope top --json --interval 10 | jq '.programs[].high.allocated_bytes'

GPUs are seen through NVML, and programs once they serve what they hold: a Rust program with
LiveServer; docs/live.md has the protocol.

Keys: q quits, up and down select, Tab shows details, space pauses, ? explains.")]
pub(crate) struct TopArgs {
    /// Seconds between two looks, from 0.1 [default: 1]; with --json how long the look takes [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Look at this socket too, beside those in the user's own folder; may be given again
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Vec<PathBuf>,
    /// Print one look as JSON and end
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run a program on GPUs that are not there: does it fit, on which card, and what would make it fit?
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

/// Run a program as it is, with its own PyTorch, on phantom GPUs, and say whether it fits
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope phantom run -- python train.py
  vramscope phantom run --gpu rtx4090 --record run.pickle -- python train.py --batch-size 64
  vramscope phantom run --gpu a100-40gb --gpus 8 -- torchrun --nproc-per-node 8 train.py
  vramscope phantom run --world-size 64 --rank 3 -- python train.py
  vramscope phantom run --sweep-gpus -- python train.py

Kernels compute nothing: sizes are PyTorch's own, values are zeros. Exit code 1 says that the program does not fit, or barely.")]
pub(crate) struct PhantomRunArgs {
    /// The card, by its name in `vramscope phantom list`
    #[arg(long, value_name = "NAME", value_parser = phantom_gpu, default_value = "h100-80gb")]
    pub(crate) gpu: &'static Gpu,
    /// The card's whole memory, as 24GiB, instead of what the card has
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// What a CUDA context takes of the card, instead of what its profile says
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) context: Option<u64>,
    /// How many cards there are
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) gpus: u8,
    /// Run the program as one rank of so many; the others are pretended. Set by --rank which one it is
    #[arg(long, value_name = "N", requires = "rank", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) world_size: Option<u32>,
    /// The rank to run, counted from 0
    #[arg(long, value_name = "R", requires = "world_size")]
    pub(crate) rank: Option<u32>,
    /// Keep the recording there; of several processes each has its own, with `-rank3` or a number in its name
    #[arg(long, value_name = "OUT", value_parser = PathBufValueParser::new().try_map(snapshot_file))]
    pub(crate) record: Option<PathBuf>,
    /// Settings of PyTorch's allocator, as for PYTORCH_CUDA_ALLOC_CONF
    #[arg(long, value_name = "CONF")]
    pub(crate) conf: Option<String>,
    /// After so long the program has done steps enough, and is asked to end (SIGTERM)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) steps_timeout: Option<Duration>,
    /// What the program reads from a GPU that nothing was copied to: zeros, or numbers made from a seed, as random=7
    #[arg(long, value_name = "zeros|random[=SEED]", value_parser = values, default_value = "zeros")]
    pub(crate) values: Values,
    /// Keep no contents of copies to a GPU beyond 64 KiB each: they read as zeros, and take no memory of the host
    #[arg(long)]
    pub(crate) no_contents: bool,
    /// Compare all cards, too; the exit code is that of the card of --gpu
    #[arg(long)]
    pub(crate) sweep_gpus: bool,
    /// Never run the program again: neither without a limit where it runs out of memory, nor on other cards
    #[arg(long, conflicts_with = "sweep_gpus")]
    pub(crate) once: bool,
    /// Print JSON; what the program prints on stdout goes to stderr
    #[arg(long)]
    pub(crate) json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// The cards that there are profiles of
#[derive(Debug, Args)]
pub(crate) struct PhantomListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a program reads that no kernel computed.
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
            seed.parse().map(Values::Random).map_err(|_| format!("`{seed}` is no seed, as 7"))
        }
        _ => Err("it is zeros, random or random=SEED".to_owned()),
    }
}

/// What changed between two recordings of a program: what the second holds more of, and why
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope diff before.pickle after.pickle
  vramscope diff phantom.pickle gpu.pickle --device 0 --json

Exit code 0 says that they are the same, 1 that they differ.")]
pub(crate) struct DiffArgs {
    /// A recording; `-` is standard input
    pub(crate) a: PathBuf,
    /// The one to compare it with
    pub(crate) b: PathBuf,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Compare at the peak of step number N of each, from 1, instead of at the peak of all
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

/// The bare facts of a file: format, age, what it has, counts
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

/// Answer an assistant's questions about recordings, over the Model Context Protocol
#[derive(Debug, Args)]
#[command(after_help = "An assistant starts it. In its configuration:
  {\"mcpServers\": {\"vramscope\": {\"command\": \"vramscope\", \"args\": [\"mcp\", \"--allow\", \"runs\"]}}}

It speaks JSON-RPC on standard input and output, reads recordings and writes nothing.")]
pub(crate) struct McpArgs {
    /// A folder whose recordings may be read, with the folders in it; may be given again [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) allow: Vec<PathBuf>,
    /// How much memory the open recordings may take together, about
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

    /// Sizes with their bytes; `None` of texts that are none.
    fn sizes() -> Vec<(&'static str, Option<u64>)> {
        let lines = include_str!("../../vramscope-basics/sizes.txt").lines();
        let rows = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('|'));
        rows.map(|(text, bytes)| (text, bytes.parse().ok())).collect()
    }

    /// The options of a command and of those below it that take a size, as `replay --capacity`.
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
