//! What can be written on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use regex::Regex;
use vramscope::analysis::By;

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
    Info(InfoArgs),
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
    /// A snapshot of PyTorch's, as pickle or JSON, also compressed with gzip or zstd; `-` is standard input
    pub(crate) file: PathBuf,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Look at what is live after event number EVENT, from 0, instead of at the peak
    #[arg(long, value_name = "EVENT")]
    pub(crate) at: Option<usize>,
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
        }
    }
}

/// The bare facts of a file: format, age, what it has, counts
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// A snapshot; `-` is standard input
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
