//! Arguments that several commands share, and those of the commands that exist only on Unix.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use regex::Regex;
use vramscope::export::ExportFormat;
use vramscope::gpus::Gpu;
use vramscope::profiler::{AlertQuantity, ListenAddress, LogFormat, Severity, Threshold};
use vramscope::recorder::{CopyAt, RecordedStacks};
use vramscope::session::values::command::{in_lines, one_of};
use vramscope::session::values::{self, size};
use vramscope::trace::formats::ReadOptions;

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

/// File name endings that are not snapshots, in addition to those of [`ExportFormat`].
const OTHER_ENDINGS: [&str; 5] = [".gz", ".html", ".jsonl", ".txt", ".zst"];

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

/// Whether the name of a recording is that of a log, which is written while the program runs.
pub(crate) fn names_log(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "vramscope")
}

/// Checks that the name of an output file fits a snapshot or a log.
fn snapshot_or_log(file: PathBuf) -> Result<PathBuf, String> {
    if names_log(&file) { Ok(file) } else { snapshot_file(file) }
}

/// Checks that the name of an output file fits a log.
fn log(file: PathBuf) -> Result<PathBuf, String> {
    if names_log(&file) {
        return Ok(file);
    }
    Err("the recording is a log: use a name that ends in .vramscope".to_owned())
}

/// The profile of a GPU, for phantom GPUs.
fn phantom_gpu(name: &str) -> Result<&'static Gpu, String> {
    values::gpu(name).map_err(|known| format!("{}; for other GPUs, also give --memory", in_lines(&known)))
}

/// Parses a regular expression with at least one group.
pub(crate) fn rank_pattern(text: &str) -> Result<Regex, String> {
    let pattern = Regex::new(text).map_err(|e| e.to_string())?;
    if pattern.captures_len() < 2 {
        return Err("the pattern has no group for the number; put the number in parentheses, as rank(\\d+)"
            .to_owned());
    }
    Ok(pattern)
}

/// Run a program and record the GPU memory that it allocates
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope run -- python train.py
  vramscope run --record run.vramscope --keep 2GiB -- python train.py
  vramscope run --record run.vramscope --at 90% -- python train.py
  vramscope run --record run.vramscope --categories -- python train.py
  vramscope run --history -- python train.py
  vramscope run --record run.pickle --every 60 -- python train.py

A log (.vramscope) is written while the program runs, and nothing is lost if it is killed. It has the allocations of PyTorch and of every other library, from any program on Linux with glibc. Requested sizes, streams and pools are unknown.

A pickle is PyTorch's history, with recorded categories. The Python that runs the program needs the package: pip install vramscope.

The exit code is that of the program.")]
pub(crate) struct RunArgs {
    /// File for the recording, a log (.vramscope) or a pickle; each rank writes a separate file, as run-rank3.vramscope [default:
    /// run.vramscope, or vramscope.pickle for a history]
    #[arg(long, value_name = "OUT", value_parser = PathBufValueParser::new().try_map(snapshot_or_log))]
    pub(crate) record: Option<PathBuf>,
    /// Record PyTorch's own history, which a pickle has; the other options of histories imply it
    #[arg(long)]
    pub(crate) history: bool,
    /// Number of events of a history to keep; the newest are kept [default: 500000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_entries: Option<u64>,
    /// Also write a history at this interval, so that a killed program leaves its last one
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) every: Option<Duration>,
    /// Frames of the stacks in a log: none, python, all (also native ones), or large:SIZE, as large:1MiB (python, only for requests of at
    /// least this size) [default: python]
    #[arg(long, value_name = "FRAMES", value_parser = stacks)]
    pub(crate) stacks: Option<RecordedStacks>,
    /// Limit the log of each process to this size, as 2GiB, at least 1MiB: the newest events are kept, in run.vramscope and
    /// run-before.vramscope
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) keep: Option<u64>,
    /// Copy the log to run-at-mark.vramscope once a process holds this much memory on a device, as 20GiB, or 90% of the device
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = copy_at)]
    pub(crate) at: Option<CopyAt>,
    /// Record categories, phases, modules and regions of a PyTorch program in its log; its Python needs the package vramscope
    #[arg(long)]
    pub(crate) categories: bool,
    /// Also write a log as a pickle when the program has ended, for PyTorch's memory_viz
    #[arg(long, value_name = "OUT", value_parser = PathBufValueParser::new().try_map(snapshot_file))]
    pub(crate) also_pickle: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Record the GPU memory of a process that already runs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope attach 4711 --record run.vramscope
  vramscope attach 4711 --record run.vramscope --for 60 --stacks all

The recording ends with Ctrl-C, after --for, or with the process, which goes on without it. Memory from before is unknown. The process must be one of this user's, on Linux with glibc. gdb must be installed: it loads the recorder into the process.")]
pub(crate) struct AttachArgs {
    /// The process ID
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) process: u32,
    /// File for the log, which ends in .vramscope
    #[arg(
        long,
        value_name = "OUT",
        default_value = "run.vramscope",
        value_parser = PathBufValueParser::new().try_map(log)
    )]
    pub(crate) record: PathBuf,
    /// Frames of the stacks: none, python, all (also native ones), or large:SIZE, as large:1MiB (python, only for requests of at least
    /// this size) [default: python]
    #[arg(long, value_name = "FRAMES", value_parser = stacks)]
    pub(crate) stacks: Option<RecordedStacks>,
    /// End the recording after this time
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// The process loads the recorder without a debugger, as `vramscope.torch.record` does: print what it loads, and its logs
    #[arg(long, hide = true)]
    pub(crate) from_within: bool,
}

/// Copy the log of a process that is being recorded, and explain the memory that it holds now
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope dump 4711
  vramscope dump 4711 -o now.vramscope --json

The process goes on, and so does its recording. PID is a process that `vramscope run`, `vramscope attach` or `vramscope.torch.record(\"run.vramscope\")` records, or the process of `vramscope run` itself, which means all processes that it records.")]
pub(crate) struct DumpArgs {
    /// The process ID
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) process: u32,
    /// File for the copy, which ends in .vramscope [default: run-at-dump.vramscope beside the log run.vramscope]
    #[arg(short, long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(log))]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses bytes of device memory, or a percentage.
fn copy_at(text: &str) -> Result<CopyAt, String> {
    let Some(percent) = text.trim().strip_suffix('%') else { return size(text).map(CopyAt::Bytes) };
    match percent.trim_end().parse() {
        Ok(percent @ 1..=100) => Ok(CopyAt::Percent(percent)),
        _ => Err("expected a whole number of percent from 1% to 100%".to_owned()),
    }
}

/// Parses the frames of the stacks in a log.
fn stacks(text: &str) -> Result<RecordedStacks, String> {
    match (text, text.strip_prefix("large:")) {
        ("none", _) => Ok(RecordedStacks::None),
        ("python", _) => Ok(RecordedStacks::Python),
        ("all", _) => Ok(RecordedStacks::All),
        (_, Some(least)) => size(least).map(RecordedStacks::Large),
        _ => Err("expected none, python, all, or large:SIZE, as large:1MiB".to_owned()),
    }
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
    /// Write every sample and event to this file as it happens; a file with contents is not replaced
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the log [default: csv if FILE ends in .csv, else jsonl]
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "output",
        value_parser = one_of(&LOG_FORMATS, log_format_name)
    )]
    pub(crate) format: Option<LogFormat>,
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

/// The formats of a log.
const LOG_FORMATS: [LogFormat; 2] = [LogFormat::Csv, LogFormat::JsonLines];

fn log_format_name(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Csv => "csv",
        LogFormat::JsonLines => "jsonl",
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
            "device" => (AlertQuantity::DevicePercent, percent()?),
            "fragmentation" => (AlertQuantity::ExternalFragmentationPercent, percent()?),
            "growth" => (AlertQuantity::GrowthPerMinute, size(value)? as f64),
            "hidden" => (AlertQuantity::Hidden, size(value)? as f64),
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

/// The phantom GPUs, and how programs run on them.
#[derive(Debug, Clone, Args)]
pub(crate) struct PhantomGpuArgs {
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
    /// Stop each run of the program after this time with SIGTERM; the steps until then are enough
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) steps_timeout: Option<Duration>,
    /// Values that the program reads from GPU memory without copied data: zeros, or random numbers from a seed, as random=7
    #[arg(long, value_name = "zeros|random[=SEED]", value_parser = values, default_value = "zeros")]
    pub(crate) values: Values,
}

/// Run an unchanged program, with the installed PyTorch, on phantom GPUs and report whether it fits
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  vramscope phantom run -- python train.py
  vramscope phantom run --gpu rtx4090 --record run.pickle -- python train.py --batch-size 64
  vramscope phantom run --gpu a100-40gb --gpus 8 -- torchrun --nproc-per-node 8 train.py
  vramscope phantom run --world-size 64 --rank 3 -- python train.py
  vramscope phantom run --sweep-gpus -- python train.py

Kernels compute nothing: allocation sizes are those of PyTorch, values are zeros. Exit code 1: the program does not fit, or barely fits.")]
pub(crate) struct PhantomRunArgs {
    #[command(flatten)]
    pub(crate) on: PhantomGpuArgs,
    /// Run the program as one rank of N, given by --rank; the other ranks are simulated
    #[arg(long, value_name = "N", requires = "rank", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) world_size: Option<u32>,
    /// The rank to run, counted from 0
    #[arg(long, value_name = "R", requires = "world_size")]
    pub(crate) rank: Option<u32>,
    /// Write the recording to this file, as a pickle, or as a log if its name ends in .vramscope; of several processes, each writes a separate file with `-rank3` or a number in its name
    #[arg(long, value_name = "OUT", value_parser = PathBufValueParser::new().try_map(snapshot_or_log))]
    pub(crate) record: Option<PathBuf>,
    /// Record which allocations kernels, libraries and copies access, in a log [default: run.vramscope]
    #[arg(long)]
    pub(crate) accesses: bool,
    /// Number of events to keep for each GPU; the newest are kept. If events are dropped, the verdict has only the GPU's counts [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_entries: Option<u64>,
    /// Settings of PyTorch's allocator, in the syntax of PYTORCH_CUDA_ALLOC_CONF
    #[arg(long, value_name = "CONF")]
    pub(crate) conf: Option<String>,
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

/// Find changes with which a program fits in GPU memory, each verified by a run on a phantom GPU
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope fit --gpu rtx4090 -- python train.py
  vramscope fit --gpu rtx4090 --budget 20GiB -- python train.py
  vramscope fit --vary 'batch=1..256' -- python train.py --batch '{batch}'
  vramscope fit --vary 'length=128..4096' --env 'LENGTH={length}' -- ./train.sh

The program runs once per change, without its output; the last exception of a failed run is shown. Exit code 1: nothing was found with which it fits.")]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) on: PhantomGpuArgs,
    /// Device memory that the program may use, with its CUDA context, as 22GiB [default: all of the GPU's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) budget: Option<u64>,
    /// Find the largest number that fits for {NAME} in the program's arguments; HIGH is the wanted number
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    pub(crate) vary: Option<Vary>,
    /// Set an environment variable of the program; the value may contain {NAME}
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Measure only these changes and their combinations, as --only activation_checkpointing,allocator_conf
    #[arg(long, value_name = "CHANGE", value_delimiter = ',', value_parser = crate::commands::fit::KEYS)]
    pub(crate) only: Vec<String>,
    /// Also measure fully sharded data parallel over N cards, with the program's batch on each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) cards: Option<u32>,
    /// Write the recording of each run into this directory, named by the change
    #[arg(long, value_name = "DIR")]
    pub(crate) recordings: Option<PathBuf>,
    /// Runs at the same time [default: one for each processor, as far as the host's memory suffices; 1 if the program has several processes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) jobs: Option<u8>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// A number in the program's arguments that is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vary {
    pub(crate) name: String,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl std::str::FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}` is not NAME=LOW..HIGH, as batch=1..256");
        let (name, range) = text.split_once('=').ok_or_else(expected)?;
        let (low, high) = range.split_once("..").ok_or_else(expected)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| expected());
        let (low, high) = (number(low)?, number(high.strip_prefix('=').unwrap_or(high))?);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if !is_name {
            return Err(expected());
        }
        if low > high {
            return Err(format!("{low} is above {high}: give the smaller number first"));
        }
        Ok(Self { name: name.to_owned(), low, high })
    }
}

/// Parses an environment variable. The variables that phantom GPUs set are refused.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    if name.is_empty() {
        return Err(format!("`{text}` is not KEY=VALUE"));
    }
    if ["PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH"].contains(&name) {
        return Err(format!(
            "the phantom GPU sets {name}: set it before the command, as {name}=... vramscope fit"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}
