//! The arguments of `vramscope phantom`.

use crate::args::{seconds, snapshot_or_log};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use vramscope::gpus::Gpu;
use vramscope::session::values::command::in_lines;
use vramscope::session::values::size;

/// The profile of a GPU, for phantom GPUs.
fn phantom_gpu(name: &str) -> Result<&'static Gpu, String> {
    vramscope::session::values::gpu(name)
        .map_err(|known| format!("{}; for other GPUs, also give --memory", in_lines(&known)))
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
