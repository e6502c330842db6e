//! Formats of recordings. Each has one file or folder and a [`FormatReader`] in [`READERS`].

mod ahead;
mod assembler;
mod compression;
mod format;
#[cfg(all(feature = "structured-zstd", any(test, not(feature = "zstd"))))]
mod frames;
mod json;
mod keys;
pub mod log;
mod pickle;
mod samples;
mod start;
mod window;

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread;

pub use compression::Compression;
pub use format::{Contents, Format, FormatReader};
pub use pickle::write as write_pickle;
#[cfg(not(target_family = "wasm"))]
pub use pickle::write_file as write_pickle_file;
pub use window::Window;

use ahead::Ahead;
use compression::{Expanded, Taken, in_words};

use crate::error::ReadError;
use crate::notices::Notices;
use crate::samples::{SampleForm, SampleLog};
use crate::trace::{DeviceTrace, Trace};
use start::{FirstObject, other_file, own_json};
use window::{CHUNK, WhenNeeded};

/// Valid device numbers, as a half-open range. -1 is the host; the upper limit exceeds the largest machines (PyTorch counts devices in
/// eight bits). A limit is needed because every analysis runs for each device.
const DEVICES: std::ops::Range<i64> = -1..1024;

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

/// Accepted contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A recording; a log of samples is rejected before it is read.
    Recording,
    /// A recording or a log of samples.
    Any,
}

/// The readers of this crate, in the order in which they are tried.
pub const READERS: &[&dyn FormatReader] = &[&pickle::Pickle, &json::Json, &log::Log];

/// Options for reading recordings.
#[derive(Debug, Default, Clone, Copy)]
pub struct ReadOptions {
    /// Limit on the decompressed size in bytes. `None` is 16 MiB plus 250 times the compressed bytes; `Some(u64::MAX)` is no limit.
    /// Recordings expand by a factor of about 40.
    pub expanded_bytes: Option<u64>,
    /// Approximate limit on the memory of a recording's tables while it is read, in bytes. `None` is the default limit of eight times
    /// the bytes read. Exceeding the limit is [`ReadError::Memory`].
    pub memory_bytes: Option<u64>,
    /// Readers of other crates. They are tried before [`READERS`].
    pub readers: &'static [&'static dyn FormatReader],
}

/// Reads a snapshot or a [`log`] of any known format. The first bytes determine the format, not the file's name. A log of samples is an
/// error; [`read_any`] accepts it.
///
/// Calls `progress` now and then with the number of bytes read from `stream`. The stream is read on demand, so an error in the first
/// bytes does not wait for more. [`read_file`] is faster for a file on disk.
///
/// # Errors
/// If the stream fails or is not a recording. Memory use stays within a small multiple of the bytes read, for any stream, and no data
/// can run code. [`ReadOptions`] limit the decompressed size.
pub fn read(stream: impl Read, progress: &mut dyn FnMut(u64)) -> Result<Recording, ReadError> {
    read_with(ReadOptions::default(), stream, progress)
}

/// Like [`read`], with options.
///
/// # Errors
/// As [`read`].
pub fn read_with(
    options: ReadOptions,
    stream: impl Read,
    progress: &mut dyn FnMut(u64),
) -> Result<Recording, ReadError> {
    recording(read_wanted(Wanted::Recording, options, stream, progress))
}

/// Reads a recording or a log of samples. The first bytes determine the format, not the file's name. Otherwise like [`read_with`].
///
/// # Errors
/// As [`read`].
pub fn read_any(
    options: ReadOptions,
    stream: impl Read,
    progress: &mut dyn FnMut(u64),
) -> Result<Opened, ReadError> {
    read_wanted(Wanted::Any, options, stream, progress)
}

/// Like [`read_any`], for a file, which it reads as [`read_file`] does.
///
/// # Errors
/// As [`read`].
pub fn read_any_file(
    options: ReadOptions,
    file: &File,
    progress: &mut dyn FnMut(u64),
) -> Result<Opened, ReadError> {
    read_wanted_file(Wanted::Any, options, file, progress)
}

fn read_wanted(
    wanted: Wanted,
    options: ReadOptions,
    stream: impl Read,
    progress: &mut dyn FnMut(u64),
) -> Result<Opened, ReadError> {
    let taken = Taken::default();
    let stream = Expanded::new(stream, &taken, options.expanded_bytes)?;
    let compression = stream.compression();
    let progress = &mut || progress(taken.bytes());
    let window = Window::new(WhenNeeded { stream, progress }, options.memory_bytes);
    in_words(compression, read_plain(wanted, options, window, compression))
}

/// Unwraps the result of a read that only accepts recordings.
fn recording(read: Result<Opened, ReadError>) -> Result<Recording, ReadError> {
    match read? {
        Opened::Recording(recording) => Ok(recording),
        Opened::Samples { .. } => Err(ReadError::Samples),
    }
}

/// Like [`read`], for a file. A file on disk is [read ahead](read_ahead). A small file or a pipe is read as in [`read`].
///
/// # Errors
/// As [`read`].
pub fn read_file(
    options: ReadOptions,
    file: &File,
    progress: &mut dyn FnMut(u64),
) -> Result<Recording, ReadError> {
    recording(read_wanted_file(Wanted::Recording, options, file, progress))
}

fn read_wanted_file(
    wanted: Wanted,
    options: ReadOptions,
    file: &File,
    progress: &mut dyn FnMut(u64),
) -> Result<Opened, ReadError> {
    if is_worth_a_thread(file) {
        read_wanted_ahead(wanted, options, file, progress)
    } else {
        read_wanted(wanted, options, file, progress)
    }
}

/// Whether [`read_ahead`] is better for a file: a regular file larger than one chunk.
pub fn is_worth_a_thread(file: &File) -> bool {
    file.metadata().is_ok_and(|m| m.is_file() && m.len() > CHUNK as u64)
}

/// Like [`read_with`], for a stream whose reads always end. A separate thread reads and decompresses ahead of the decoding thread. With
/// only one core, the stream is read as in [`read_with`].
///
/// # Errors
/// As [`read`].
pub fn read_ahead(
    options: ReadOptions,
    stream: impl Read + Send,
    progress: &mut dyn FnMut(u64),
) -> Result<Recording, ReadError> {
    recording(read_wanted_ahead(Wanted::Recording, options, stream, progress))
}

fn read_wanted_ahead(
    wanted: Wanted,
    options: ReadOptions,
    stream: impl Read + Send,
    progress: &mut dyn FnMut(u64),
) -> Result<Opened, ReadError> {
    if !thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        return read_wanted(wanted, options, stream, progress);
    }
    let taken = Taken::default();
    let mut stream = Expanded::new(stream, &taken, options.expanded_bytes)?;
    let compression = stream.compression();
    let progress = &mut || progress(taken.bytes());
    let read = thread::scope(|scope| {
        let ahead = Ahead::start(scope, &mut stream, progress)?;
        io::Result::Ok(read_plain(wanted, options, Window::new(ahead, options.memory_bytes), compression))
    });
    // If the thread did not start, nothing was read yet.
    let read = read.unwrap_or_else(|_| {
        let window = Window::new(WhenNeeded { stream, progress }, options.memory_bytes);
        read_plain(wanted, options, window, compression)
    });
    in_words(compression, read)
}

fn read_plain(
    wanted: Wanted,
    options: ReadOptions,
    mut window: Window<'_>,
    compression: Compression,
) -> Result<Opened, ReadError> {
    let reader = |start: &[u8]| {
        let mut all = options.readers.iter().chain(READERS).filter(|_| !start.is_empty());
        all.find(|reader| reader.takes(start)).copied()
    };
    // Fill no more than one byte: a pipe may not have more yet.
    window.fill(1)?;
    let mut found = reader(window.here());
    if found.is_none() {
        window.fill(64)?;
        found = reader(window.here());
    }
    let form = match window.here() {
        // Not JSON, although it begins with a newline.
        [b'\n', 1..=8, ..] => {
            found = None;
            None
        }
        [b'{' | b'[' | b' ' | b'\n' | b'\r' | b'\t' | 0xef, ..] => form_of_json(&mut window)?,
        here if found.is_none() && here.contains(&b',') => {
            window.fill(SHORT)?;
            samples::form_of_table(window.here())
        }
        _ => None,
    };
    match (form, wanted) {
        (Some(_), Wanted::Recording) => return Err(ReadError::Samples),
        (Some(form), Wanted::Any) => {
            let log = samples::read(form, window)?;
            return Ok(Opened::Samples { log, compression });
        }
        (None, _) => {}
    }
    let Some(found) = found else {
        window.fill(SHORT)?;
        return Err(other_file(window.here()));
    };
    let Contents { trace, notices, format } = found.read(window)?;
    check_sizes(trace.devices.iter().chain(&trace.host))?;
    Ok(Opened::Recording(Recording { trace: Arc::new(trace), format, compression, notices }))
}

/// Whether a snapshot of PyTorch may begin with this key.
fn is_of_a_snapshot(key: &str) -> bool {
    // A row of a log may begin with its time, and the list of GPUs with a name.
    !matches!(key, "time_us" | "name") && keys::KEYS.contains(&key)
}

/// Maximum bytes of a table's header.
const SHORT: usize = 4 << 10;

/// The format of a log of samples in JSON. Returns an error that names the file if it is another output of vramscope. Requests no more
/// bytes once the first key shows a snapshot.
fn form_of_json(window: &mut Window<'_>) -> Result<Option<SampleForm>, ReadError> {
    const MOST: usize = 64 << 10;
    loop {
        let here = window.here();
        let length = here.len();
        let Some(object) = FirstObject::of(here) else { return Ok(None) };
        if object.keys.first().is_some_and(|key| is_of_a_snapshot(key)) {
            return Ok(None);
        }
        if let Some(form) = samples::form_of_json(&object) {
            return Ok(Some(form));
        }
        let is_all = object.is_whole || length >= MOST;
        if !is_all {
            window.fill(length + 1)?;
        }
        if is_all || window.here().len() == length {
            return own_json(&object).map_or(Ok(None), Err);
        }
    }
}

/// Limits the sum of all sizes, so that no partial sum can overflow 64 bits, even after rounding.
fn check_sizes<'d>(devices: impl Iterator<Item = &'d DeviceTrace>) -> Result<(), ReadError> {
    for d in devices {
        let events = d.events.iter().map(|e| u128::from(e.size));
        let segments = d.segments.iter().map(|s| u128::from(s.total_size));
        let blocks = d.blocks.iter().flat_map(|b| [b.size, b.requested_size].map(u128::from));
        if events.chain(segments).chain(blocks).sum::<u128>() >= 1 << 61 {
            let path = format!("device {}", d.device);
            let what = "has sizes that sum to more than 2^61 bytes, beyond any device".to_owned();
            return Err(ReadError::Schema { path, what });
        }
    }
    Ok(())
}
