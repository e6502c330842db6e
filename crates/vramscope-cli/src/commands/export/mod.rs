//! `vramscope export`

mod args;
pub(crate) mod convert;
pub(crate) mod dataset;

use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;
use vramscope::export::{ExportFormat, ExportOptions, Source, Written, lost, write};

use super::{about, open, print_json, stdout};
use crate::args::ReadArgs;
use crate::output::Output;

pub(crate) use args::ExportArgs;

/// A summary of the written file, for `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Export"))]
pub(crate) struct ExportJson {
    file: String,
    format: &'static str,
    output: String,
    output_bytes: u64,
    rows: u64,
    table: Option<&'static str>,
    at_event: Option<usize>,
    devices: Vec<i64>,
    /// What the output lacks of the recording.
    lost: Vec<&'static str>,
}

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<()> {
    // `-o -` is standard output, as `-` is standard input.
    let output = args.output.as_deref().filter(|&o| o != Path::new("-"));
    let [file] = args.files.as_slice() else { return dataset::run(args, output) };
    if dataset::is_meant(args, file, output) {
        return dataset::run(args, output);
    }
    let format = format(args, output)?;
    check(args, format, output)?;
    let options =
        ExportOptions { at: args.at, table: args.what.first().copied().flatten().unwrap_or_default() };
    let written = write_one(file, output, format, &options, args.device, args.reading)?;
    match written {
        Some(written) if args.json => print_json(&written),
        _ => Ok(()),
    }
}

/// Writes one recording in another format. Returns `None` if the reader of the output has closed it.
pub(crate) fn write_one(
    file: &Path,
    output: Option<&Path>,
    format: ExportFormat,
    options: &ExportOptions,
    device: Option<i64>,
    reading: ReadArgs,
) -> anyhow::Result<Option<ExportJson>> {
    let session = open(file, reading)?;
    let (name, trace) = (session.name().to_owned(), session.trace());
    let devices = session.devices(device).map_err(about(&name))?;
    session.check_event(&devices, options.at).map_err(about(&name))?;
    let numbers = devices.iter().map(|&d| session.number(d)).collect();
    let source = Source { trace, frames: session.frames(), devices };

    let mut out = output.map_or_else(|| Ok(Output::stdout()), |path| Output::file(path, &[file]))?;
    let target = out.name().to_owned();
    let written = write(&source, format, options, &mut out);
    if written.is_err() && out.is_unread() {
        return Ok(None);
    }
    let Written { bytes, rows } = written.with_context(|| target.clone())?;
    out.finish()?;
    Ok(Some(ExportJson {
        file: name,
        format: format.name(),
        output: target,
        output_bytes: bytes,
        rows,
        table: format.is_table().then(|| options.table.name()),
        at_event: options.at,
        devices: numbers,
        lost: lost(&source, format),
    }))
}

/// The format from `--format`, or from the ending of the output's name.
fn format(args: &ExportArgs, output: Option<&Path>) -> anyhow::Result<ExportFormat> {
    match (args.format, output) {
        (Some(format), _) => Ok(format),
        (None, Some(output)) => match format_of(output) {
            Some(format) => Ok(format),
            None => bail!("{}; give a format with --format", unknown_ending(output)),
        },
        (None, None) => bail!(
            "give a format with --format, or a file with --output whose name ends in one of {}",
            endings()
        ),
    }
}

/// The format from the ending of the output's name.
fn format_of(output: &Path) -> Option<ExportFormat> {
    let name = output.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    ExportFormat::of_file_name(&name)
}

fn unknown_ending(output: &Path) -> String {
    format!("{}: does not end in one of {}", output.display(), endings())
}

fn endings() -> String {
    ExportFormat::ALL.map(ExportFormat::extension).join(" ")
}

/// Checks that the options go together, before anything is read.
fn check(args: &ExportArgs, format: ExportFormat, output: Option<&Path>) -> anyhow::Result<()> {
    let name = format.name();
    if args.at.is_some() && !format.shows_a_moment() {
        bail!("--at applies to pprof, folded and flamegraph; {name} contains the whole recording");
    }
    if !args.what.is_empty() && !format.is_table() {
        bail!("--what applies to csv and parquet; {name} has no tables");
    }
    if args.rank.is_some() {
        bail!("--rank applies to datasets; this is one recording");
    }
    if args.json && output.is_none() {
        bail!("--json prints a summary of the written file: name the file with --output");
    }
    if output.is_none() && format.is_binary() && stdout().is_terminal() {
        bail!(
            "{name} is a binary format: write it to a file, as `--output out{}`, or to a pipe",
            format.extension()
        );
    }
    Ok(())
}
