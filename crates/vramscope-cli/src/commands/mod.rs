//! One file a subcommand.

pub(crate) mod completions;
pub(crate) mod info;
pub(crate) mod report;

use std::io::{self, Write as _};

/// Prints an answer as JSON, whole.
fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Prints an answer as text; colours only where somebody sees them.
fn print_text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
