//! One file a subcommand.

pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod completions;
mod dataset;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod fleet;
pub(crate) mod info;
pub(crate) mod mcp;
#[cfg(unix)]
pub(crate) mod monitor;
#[cfg(unix)]
pub(crate) mod phantom;
pub(crate) mod query;
pub(crate) mod replay;
pub(crate) mod report;
#[cfg(unix)]
pub(crate) mod run;
#[cfg(unix)]
pub(crate) mod top;
pub(crate) mod view;

use std::path::Path;

use anyhow::bail;
use terminal_size::{Width, terminal_size_of};
use vramscope::analysis::Frames;
use vramscope::trace::Trace;
use vramscope::trace::formats::{ReadOptions, Recording};

use crate::input;
use crate::say::{print_json, print_text};

/// Columns where the output is not a terminal.
const WIDTH: usize = 100;

/// Columns to write in.
fn width() -> usize {
    let width = terminal_size_of(stdout()).map_or(WIDTH, |(Width(w), _)| w.into());
    width.clamp(60, 160)
}

#[expect(clippy::disallowed_methods, reason = "looked at, not written to")]
fn stdout() -> std::io::Stdout {
    std::io::stdout()
}

/// A recording that was read.
struct Open {
    name: String,
    recording: Recording,
    frames: Frames,
}

impl Open {
    fn read(file: &Path, options: ReadOptions) -> anyhow::Result<Self> {
        let recording = input::read(file, options)?;
        Ok(Self { name: input::name(file), frames: Frames::of(&recording.trace), recording })
    }
}

/// Standard input or output.
fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// The positions of the devices of a recording that the user asked for: one or all.
fn devices(name: &str, trace: &Trace, only: Option<i64>) -> anyhow::Result<Vec<usize>> {
    let is_asked_for = |&position: &usize| only.is_none_or(|n| trace.devices[position].device == n);
    let devices: Vec<usize> = (0..trace.devices.len()).filter(is_asked_for).collect();
    if let (Some(asked), true) = (only, devices.is_empty()) {
        let known: Vec<String> = trace.devices.iter().map(|d| d.device.to_string()).collect();
        bail!(
            "{name}: has no device {asked}; it has {}",
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        );
    }
    Ok(devices)
}

/// Complains where no device has as many events as `--at` asks for.
fn check_event(name: &str, trace: &Trace, devices: &[usize], at: Option<usize>) -> anyhow::Result<()> {
    let longest = devices.iter().map(|&d| trace.devices[d].events.len()).max().unwrap_or(0);
    if let Some(at) = at.filter(|&at| at >= longest) {
        bail!("{name}: has no event {at}; its events are numbered from 0 and there are {longest}");
    }
    Ok(())
}
