//! The arguments of `vramscope fit`.

use std::path::PathBuf;

use clap::Args;
use vramscope::session::values::size;

use crate::commands::phantom::args::PhantomGpuArgs;

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
