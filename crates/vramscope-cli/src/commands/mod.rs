//! One file per subcommand.

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

/// Output width in columns if the output is not a terminal.
const WIDTH: usize = 100;

/// Output width in columns.
fn width() -> usize {
    let width = terminal_size_of(stdout()).map_or(WIDTH, |(Width(w), _)| w.into());
    width.clamp(60, 160)
}

#[expect(clippy::disallowed_methods, reason = "queried, not written to")]
fn stdout() -> std::io::Stdout {
    std::io::stdout()
}

/// A recording with its name and classified frames.
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

/// Whether the path means standard input or output.
fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// The positions of the requested device, or of all devices.
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

/// Fails if no device has an event with the index of `--at`.
fn check_event(name: &str, trace: &Trace, devices: &[usize], at: Option<usize>) -> anyhow::Result<()> {
    let longest = devices.iter().map(|&d| trace.devices[d].events.len()).max().unwrap_or(0);
    if let Some(at) = at.filter(|&at| at >= longest) {
        bail!("{name}: has no event {at}; its events are numbered from 0 and there are {longest}");
    }
    Ok(())
}
