//! The arguments of `vramscope run`.

use crate::args::{copy_at, seconds, snapshot_file, snapshot_or_log, stacks};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use vramscope::recorder::{CopyAt, RecordedStacks};
use vramscope::session::values::size;

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
    /// File for the recording, a log (.vramscope) or a pickle; each rank writes a separate file, as run-rank3.vramscope.
    /// %t in the name stands for the time [default: run.vramscope, or vramscope.pickle for a history; run-2.vramscope if it exists]
    #[arg(long, value_name = "OUT", value_parser = PathBufValueParser::new().try_map(snapshot_or_log))]
    pub(crate) record: Option<PathBuf>,
    /// Replace an existing recording
    #[arg(long)]
    pub(crate) force: bool,
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
    /// Write the log to the disk at this interval (fsync), so that it survives a power cut
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) sync: Option<Duration>,
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
