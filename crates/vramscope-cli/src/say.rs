//! The only way to the terminal: all output of this command goes through here, so that no text from recordings, other programs, file
//! names or arguments can control the terminal.
//!
//! A closed pipe never changes the exit code: a reader that closes standard output is not an error, and a failed write to stderr does
//! not stop the command.

use std::io::{self, Write as _};

use anyhow::Context as _;
use vramscope::report::{Shown, write_json};

/// Prints a message on stderr, on one line.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn say(text: &str) {
    // A failure cannot be reported anywhere.
    writeln!(anstream::stderr(), "{}", Shown::of(text)).ok();
}

/// Prints several lines on stderr, with colors only on a terminal.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn say_page(text: &str) {
    // A failure cannot be reported anywhere.
    anstream::stderr().write_all(Shown::page(text).as_bytes()).ok();
}

/// Prints an answer as text, with colors only on a terminal.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(Shown::page(text).as_bytes()).and_then(|()| out.flush());
    unless_unread(written)
}

/// Prints an answer as JSON.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    unless_unread(write_json(io::stdout().lock(), value))
}

/// Prints an answer as JSON on one line.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn print_json_line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    unless_unread(vramscope::report::write_json_line(io::stdout().lock(), value))
}

/// Standard input and output for the exclusive use of a protocol.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn protocol_streams() -> (tokio::io::Stdin, tokio::io::Stdout) {
    (tokio::io::stdin(), tokio::io::stdout())
}

/// Ignores the error of a closed pipe.
fn unless_unread(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output"),
    }
}
