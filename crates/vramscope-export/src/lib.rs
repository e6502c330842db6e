//! Recordings in the formats of other tools: one file a format, tables in `tables/`.
//!
//! Everything is written as a stream: memory is what the analysis of one device takes, and little beside it.
//! Names that come from the recording are hostile text; none can break the syntax of what is written.
//!
//! ```
//! use vramscope_analysis::Frames;
//! use vramscope_export::{Format, Options, Source, write};
//! use vramscope_trace::formats;
//!
//! let snapshot = br#"{"segments": [], "device_traces": [[
//!     {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0,
//!      "frames": [{"name": "step", "filename": "train.py", "line": 3}]}]]}"#;
//! let trace = formats::read(&snapshot[..], &mut |_| {}).unwrap().trace;
//! let frames = Frames::of(&trace);
//! let source = Source { trace: &trace, frames: &frames, devices: (0..trace.devices.len()).collect() };
//! let mut out = Vec::new();
//! write(&source, Format::Folded, &Options::default(), &mut out)?;
//! assert_eq!(String::from_utf8(out).unwrap(), "train.py:3 step 1024\n");
//! # Ok::<(), vramscope_export::ExportError>(())
//! ```

mod chrome;
mod csv;
mod error;
mod flamegraph;
mod folded;
mod format;
mod kept;
mod labels;
mod parquet;
mod pickle;
mod pprof;
mod source;
mod tables;
#[cfg(test)]
mod testing;

use std::io::{self, Write};

pub use error::ExportError;
pub use format::Format;
pub use labels::{LONGEST_FRAME, LONGEST_STACK};
pub use source::Source;
pub use tables::{Column, Kind, Table};

/// What to write, where a format leaves a choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The event after which to look, from 0; `None` is each device's peak of allocated bytes. For formats that
    /// [show a moment](Format::shows_a_moment).
    pub at: Option<usize>,
    /// The table, for formats that [are tables](Format::is_table).
    pub table: Table,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes.
    pub bytes: u64,
    /// What a format counts: rows of a table, events of a Chrome trace or a pickle, samples of a profile, stacks.
    pub rows: u64,
}

/// Writes `source` to `out`.
///
/// # Errors
/// Where `out` fails, or a flame graph would be empty. What was written until then is no whole file.
pub fn write(
    source: &Source<'_>,
    format: Format,
    options: &Options,
    out: impl Write + Send,
) -> Result<Written, ExportError> {
    let mut out = Counted { out, bytes: 0 };
    let rows = match format {
        Format::Chrome => chrome::write(source, &mut out),
        Format::Pprof => pprof::write(source, options.at, &mut out),
        Format::Folded => folded::write(source, options.at, &mut out).map(|f| f.lines),
        Format::Flamegraph => flamegraph::write(source, options.at, &mut out),
        Format::Csv => csv::write(source, options.table, &mut out),
        Format::Parquet => parquet::write(source, options.table, &mut out),
        Format::Pickle => pickle::write(source, &mut out),
    }?;
    out.flush()?;
    Ok(Written { bytes: out.bytes, rows })
}

/// Counts what goes through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
