//! One file per subcommand.

#[cfg(target_os = "linux")]
pub(crate) mod attach;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod diff;
#[cfg(target_os = "linux")]
pub(crate) mod dump;
pub(crate) mod export;
#[cfg(unix)]
pub(crate) mod fit;
pub(crate) mod fleet;
pub(crate) mod info;
pub(crate) mod mcp;
#[cfg(unix)]
pub(crate) mod monitor;
#[cfg(unix)]
pub(crate) mod phantom;
pub(crate) mod plan;
pub(crate) mod query;
pub(crate) mod replay;
pub(crate) mod report;
#[cfg(unix)]
pub(crate) mod run;
pub(crate) mod split;
#[cfg(unix)]
pub(crate) mod top;
pub(crate) mod view;

use std::path::Path;
#[cfg(unix)]
use std::sync::{Arc, atomic::AtomicBool};

#[cfg(unix)]
use anyhow::Context as _;
use anyhow::anyhow;
use terminal_size::{Width, terminal_size_of};
use vramscope::session::{Session, SessionError};

use crate::advice::ADVICE;
use crate::args::ReadArgs;
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

/// A flag that becomes true when Ctrl-C, SIGTERM or SIGHUP asks to stop.
#[cfg(unix)]
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for Ctrl-C")?;
    }
    Ok(stop)
}

/// Opens a recording.
fn open(file: &Path, reading: ReadArgs) -> anyhow::Result<Session> {
    Ok(Session::once(input::name(file), input::read(file, reading.options())?, ADVICE))
}

/// An error with the recording's name where it is about the recording.
fn about(name: &str) -> impl Fn(SessionError) -> anyhow::Error + '_ {
    move |error| anyhow!(error.about(name))
}

/// Whether the path means standard input or output.
fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}
