//! Exports recordings to the formats of other tools. Each format has a module; the tables are in `tables/`.
//!
//! All formats are written as streams: an export needs little more memory than the analysis of one device. Names in a recording may be
//! hostile. They are escaped, so that they cannot break the syntax of the output.
//!
//! ```
//! use vramscope_analysis::Frames;
//! use vramscope_export::{ExportFormat, ExportOptions, Source, write};
//! use vramscope_trace::formats;
//!
//! let snapshot = br#"{"segments": [], "device_traces": [[
//!     {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0,
//!      "frames": [{"name": "step", "filename": "train.py", "line": 3}]}]]}"#;
//! let trace = formats::read(&snapshot[..]).unwrap().trace;
//! let frames = Frames::of(&trace);
//! let source = Source { trace: &trace, frames: &frames, devices: (0..trace.devices.len()).collect() };
//! let mut out = Vec::new();
//! write(&source, ExportFormat::Folded, &ExportOptions::default(), &mut out)?;
//! assert_eq!(String::from_utf8(out).unwrap(), "train.py:3 step 1024\n");
//! # Ok::<(), vramscope_export::ExportError>(())
//! ```
//!
//! # Modules
//! `split` cuts a recording into parts, which are recordings. `labels` is the only place that turns frames and stacks into text; it also limits the text of one stack. `tables` defines the rows
//! - `arrow`: tables as Arrow arrays in memory, which other libraries read without copying.
//! - `chrome`: the Trace Event Format of Chrome and Perfetto, as JSON.
//! - `csv`: tables as comma-separated values (RFC 4180).
//! - `error`: why an export failed.
//! - `flamegraph`: a flame graph as SVG, drawn by `inferno` from the folded stacks.
//! - `folded`: folded stacks, one line per stack.
//! - `format`: the export formats, by name and by file name ending.
//! - `log`: recordings as logs, the format that a program writes while it runs.
//! - `lost`: the parts of a recording that an export leaves out.
//! - `parquet`: tables as Apache Parquet.
//! - `part`: the common columns of one recording's rows in a dataset.
//! - `pickle`: PyTorch's snapshots, written by `vramscope-trace`.
//! - `pprof`: a heap profile for pprof (`profile.proto`, compressed by gzip).
//! - `source`: the input of an export.
//! - `testing`: recordings for tests.
//! - `text_cache`: a cache of texts in bounded memory.
//! of each table once; CSV and Parquet take them as a `Sink`. A profile is written as a sequence of small messages, which protobuf
//! defines as one message. A Chrome trace has each stack once, in `stackFrames`.

#[cfg(feature = "arrow")]
mod arrow;
mod chrome;
mod csv;
mod error;
mod flamegraph;
mod folded;
mod format;
mod labels;
mod log;
mod lost;
mod parquet;
mod part;
mod pickle;
mod pprof;
mod source;
mod split;
mod tables;
#[cfg(test)]
mod testing;
mod text_cache;

use std::io::{self, Write};

#[cfg(feature = "arrow")]
pub use arrow::{arrow_batches, arrow_holders, arrow_schema, arrow_table};
#[cfg(all(feature = "arrow", feature = "summaries"))]
pub use arrow::{arrow_summaries, arrow_summary_schema};
pub use error::ExportError;
pub use format::ExportFormat;
pub use labels::{LONGEST_FRAME, LONGEST_STACK};
pub use lost::lost;
pub use part::Part;
pub use source::Source;
pub use split::{MOST_PARTS, PartOfDevice, Split, SplitBy, SplitError};
pub use tables::{Column, ColumnKind, Table};

/// The columns of the table of summaries.
#[cfg(feature = "summaries")]
pub const SUMMARY_COLUMNS: &[Column] = &tables::summary::COLUMNS;

/// Options of formats.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportOptions {
    /// Event index, from 0: the state after this event is exported. `None` exports the peak of allocated bytes of each device. It applies
    /// to formats that [show one event](ExportFormat::shows_a_moment).
    pub at: Option<usize>,
    /// The table, for formats that [are tables](ExportFormat::is_table).
    pub table: Table,
}

/// The size of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of rows of a table, events of a Chrome trace, a pickle or a log, samples of a profile, or stacks.
    pub rows: u64,
}

/// Writes `source` to `out`.
///
/// # Errors
/// `out` fails, a flame graph would be empty, or a log cannot hold the recording. The output is then an incomplete file.
pub fn write(
    source: &Source<'_>,
    format: ExportFormat,
    options: &ExportOptions,
    out: &mut (dyn Write + Send),
) -> Result<Written, ExportError> {
    let mut out = CountingWriter { out, bytes: 0 };
    let rows = match format {
        ExportFormat::Chrome => chrome::write(source, &mut out),
        ExportFormat::Pprof => pprof::write(source, options.at, &mut out),
        ExportFormat::Folded => folded::write(source, options.at, &mut out).map(|f| f.lines),
        ExportFormat::Flamegraph => flamegraph::write(source, options.at, &mut out),
        ExportFormat::Csv => csv::write(source, options.table, &mut out),
        ExportFormat::Parquet => parquet::write(source, options.table, &mut out),
        ExportFormat::Pickle => pickle::write(source, &mut out),
        ExportFormat::Log => log::write(source, &mut out),
    }?;
    out.flush()?;
    Ok(Written { bytes: out.bytes, rows })
}

/// Writes a table of one recording as a part of a dataset of several recordings, in Parquet.
///
/// # Errors
/// `out` fails. The output is then an incomplete file.
pub fn write_part(
    source: &Source<'_>,
    table: Table,
    part: &Part<'_>,
    out: &mut (dyn Write + Send),
) -> Result<Written, ExportError> {
    let mut out = CountingWriter { out, bytes: 0 };
    let rows = parquet::write_part(source, table, part, &mut out)?;
    out.flush()?;
    Ok(Written { bytes: out.bytes, rows })
}

/// Writes the row of a recording in the table of summaries as a part of a dataset of several recordings, in Parquet.
///
/// # Errors
/// As for [`write_part`].
#[cfg(feature = "summaries")]
pub fn write_summary_part(
    row: &vramscope_fleet::RankRow,
    out: &mut (dyn Write + Send),
) -> Result<Written, ExportError> {
    let mut out = CountingWriter { out, bytes: 0 };
    let rows = parquet::write_summary_part(row, &mut out)?;
    out.flush()?;
    Ok(Written { bytes: out.bytes, rows })
}

/// A writer that counts its bytes.
struct CountingWriter<'w> {
    out: &'w mut (dyn Write + Send),
    bytes: u64,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
