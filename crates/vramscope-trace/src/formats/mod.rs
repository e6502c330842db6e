//! Formats of recordings. Each has one file or folder and a [`FormatReader`] in [`READERS`].

mod ahead;
mod assembler;
mod compression;
mod foreign;
mod format;
mod gap;
mod json;
mod keys;
pub mod log;
mod open;
mod pickle;
mod reader;
mod rows;
mod samples;
mod start;
mod window;

use std::io::{self, Read};
use std::sync::Arc;

pub use compression::Compression;
pub use foreign::write_operators;
pub use format::{Contents, Format, FormatReader};
pub use open::in_bundle;
pub use pickle::write as write_pickle;
#[cfg(not(target_family = "wasm"))]
pub use pickle::write_file as write_pickle_file;
pub use reader::Reader;
pub use window::Window;

use crate::error::ReadError;
use crate::notices::Notices;
use crate::samples::SampleLog;
use crate::trace::Trace;

/// Valid device numbers, as a half-open range. -1 is the host; the upper limit exceeds the largest machines (PyTorch counts devices in
/// eight bits). A limit is needed because every analysis runs for each device.
const DEVICES: std::ops::Range<i64> = -1..1024;

/// The error of a writer for a device number that no reader accepts.
fn no_such_device(device: i64) -> io::Error {
    let what =
        format!("device {device} cannot be written: devices have numbers from 0 to {}", DEVICES.end - 1);
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Maximum length of a string in bytes. Names of C++ functions have a few thousand.
const LONGEST_STRING: usize = 16 << 20;

/// A trace, with the format and compression of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The trace.
    pub trace: Arc<Trace>,
    /// Format of the file.
    pub format: Format,
    /// Compression of the file.
    pub compression: Compression,
    /// Parts of the file that the trace does not include.
    pub notices: Notices,
    /// The decompressed bytes of a [log], if [`ReadOptions::keeps_log`] is set; without its [operators](Trace::operators).
    pub log: Option<Arc<[u8]>>,
}

/// Contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    /// A recording: all allocations of a program.
    Recording(Recording),
    /// A log of samples: periodic measurements of memory use.
    Samples {
        /// The log.
        log: SampleLog,
        /// Compression of the file.
        compression: Compression,
    },
}

/// The readers of this crate, in the order in which they are tried.
pub const READERS: &[&dyn FormatReader] = &[
    &pickle::Pickle,
    &json::Json,
    &log::Log,
    &foreign::Rmm,
    &foreign::Memscope,
    &foreign::Jax,
    &foreign::TorchProfiler,
    &foreign::Nsys,
];

/// Options for reading recordings.
#[derive(Debug, Default, Clone, Copy)]
pub struct ReadOptions {
    /// Limit on the decompressed size in bytes. `None` is 16 MiB plus 250 times the compressed bytes; `Some(u64::MAX)` is no limit.
    /// Recordings expand by a factor of about 40.
    pub expanded_bytes: Option<u64>,
    /// Approximate limit on the memory of a recording's tables while it is read, in bytes. `None` is the default limit of eight times
    /// the bytes read. Exceeding the limit is [`ReadError::Memory`].
    pub memory_bytes: Option<u64>,
    /// Whether [`Recording::log`] has the bytes of a log.
    pub keeps_log: bool,
    /// Readers of other crates. They are tried before [`READERS`].
    pub readers: &'static [&'static dyn FormatReader],
}

/// Reads a recording of any known format from a stream: short for [`Reader::new`] and [`Reader::read`].
///
/// # Errors
/// As [`Reader::read`].
pub fn read(stream: impl Read) -> Result<Recording, ReadError> {
    Reader::new(stream).read()
}
