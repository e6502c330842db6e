//! The only way to the terminal: what this command prints goes through here, so that no text of a recording, of another
//! program, of a file's name or of an argument steers it.
//!
//! Who reads has no say in the verdict: a reader that has seen enough is no error, and what cannot be told on stderr
//! does not stop the command.

use std::io::{self, Write as _};

use vramscope::report::{Shown, write_json};

/// Words for people on stderr: one line.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn say(text: &str) {
    // Nobody is left to tell where this fails.
    writeln!(anstream::stderr(), "{}", Shown::of(text)).ok();
}

/// Prints an answer as text; colours only where somebody sees them.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(Shown::page(text).as_bytes()).and_then(|()| out.flush());
    Ok(unless_unread(written)?)
}

/// Prints an answer as JSON, whole.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    Ok(unless_unread(write_json(io::stdout().lock(), value))?)
}

/// Standard input and output for a protocol, which then has them for itself.
#[expect(clippy::disallowed_methods, reason = "the one place that prints")]
pub(crate) fn protocol_streams() -> (tokio::io::Stdin, tokio::io::Stdout) {
    (tokio::io::stdin(), tokio::io::stdout())
}

/// Whoever reads our output may have seen enough.
fn unless_unread(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
