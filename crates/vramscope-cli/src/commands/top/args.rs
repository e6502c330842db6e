//! The arguments of `vramscope top`.

use crate::args::seconds_from;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Parses seconds between two updates of a screen: at least 0.1.
fn interval(text: &str) -> Result<Duration, String> {
    seconds_from(Duration::from_millis(100), text)
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
