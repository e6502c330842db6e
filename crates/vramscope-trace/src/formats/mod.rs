//! The formats a recording comes in: one file or folder a format, each with a [`FormatReader`] in [`READERS`].

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

/// Numbers that devices may have: -1 is the host, and the others are below what the largest machine could have
/// (PyTorch counts devices in eight bits). Every question is answered for each device.
const DEVICES: std::ops::Range<i64> = -1..1024;

/// Bytes of the longest string that is believed; names of C++ functions have a few thousand.
const LONGEST_STRING: usize = 16 << 20;

/// A trace, and how its file held it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What happened.
    pub trace: Arc<Trace>,
    /// The form it had.
    pub format: Format,
    /// How it was compressed.
    pub compression: Compression,
    /// What did not reach the trace.
    pub notices: Notices,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    /// Every allocation of a program.
    Recording(Recording),
    /// What was in use, looked at again and again.
    Samples {
        /// What it says.
        log: SampleLog,
        /// How it was compressed.
        compression: Compression,
    },
}

/// What is looked for in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A recording; a log of samples is refused before it is read.
    Recording,
    /// Either.
    Any,
}

/// The readers of this crate, in the order in which they are asked.
pub const READERS: &[&dyn FormatReader] = &[&pickle::Pickle, &json::Json, &log::Log];

/// How recordings are read.
#[derive(Debug, Default, Clone, Copy)]
pub struct ReadOptions {
    /// How many bytes a compressed recording may expand to; `None` is 16 MiB and 250 times the compressed bytes,
    /// and `Some(u64::MAX)` no limit. Recordings expand to some forty times their compressed bytes.
    pub expanded_bytes: Option<u64>,
    /// How many bytes of memory the tables of a recording may take, about, while it is read; `None` is no limit but the usual one,
    /// eight times the bytes that were read. What is read beyond the limit is [`ReadError::Memory`].
    pub memory_bytes: Option<u64>,
    /// Readers of other crates. They are asked before [`READERS`].
    pub readers: &'static [&'static dyn FormatReader],
}

/// Reads a snapshot or a [`log`] of any known form; the first bytes decide which, not a file's name. A log of samples is an
/// error, which [`read_any`] is not.
///
/// `progress` is told how many bytes of `stream` have been read, now and then. The stream is read when its
/// bytes are needed, so an error in those that came does not wait for more. For a file on disk
/// [`read_file`] is faster.
///
/// # Errors
/// Where the stream fails or holds neither. Memory stays within a small multiple of what was
/// read, whatever the stream holds, and nothing in it can run code. A compressed stream may expand as far as
/// [`ReadOptions`] say.
pub fn read(stream: impl Read, progress: &mut dyn FnMut(u64)) -> Result<Recording, ReadError> {
    read_with(ReadOptions::default(), stream, progress)
}

/// As [`read`], in other ways than the usual ones.
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

/// Reads a recording or a log of samples; the first bytes decide which, not a file's name. Otherwise as [`read_with`].
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

/// As [`read_any`], for a file, as [`read_file`] reads one.
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

/// What was read where nothing but a recording was wanted.
fn recording(read: Result<Opened, ReadError>) -> Result<Recording, ReadError> {
    match read? {
        Opened::Recording(recording) => Ok(recording),
        Opened::Samples { .. } => Err(ReadError::Samples),
    }
}

/// As [`read`], for a file: one on disk is [read ahead](read_ahead). Where the file is small or is a pipe, it is read as
/// [`read`] does.
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

/// Whether a file is better read by [`read_ahead`]: it is on disk, so that its reads end, and not small.
pub fn is_worth_a_thread(file: &File) -> bool {
    file.metadata().is_ok_and(|m| m.is_file() && m.len() > CHUNK as u64)
}

/// As [`read_with`], for a stream whose reads end: it is read and decompressed on a thread of its own, ahead of the thread that
/// decodes. Where there is no second core, it is read as [`read_with`] does.
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
    // Without a thread nothing was read yet.
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
    // No more than it takes: a pipe may have no more yet.
    window.fill(1)?;
    let mut found = reader(window.here());
    if found.is_none() {
        window.fill(64)?;
        found = reader(window.here());
    }
    let form = match window.here() {
        // No JSON, though it begins with the end of a line.
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

/// Whether a snapshot of PyTorch's may begin with this key.
fn is_of_a_snapshot(key: &str) -> bool {
    // A row of a log may begin with its time, and the list of cards with a name.
    !matches!(key, "time_us" | "name") && keys::KEYS.contains(&key)
}

/// The bytes in which a table says what its columns are.
const SHORT: usize = 4 << 10;

/// The form of a log of samples in JSON; an error that names it where it is another file of ours. It asks for no more bytes once the
/// first key says that it is neither.
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

/// All sizes together stay so far below 2^64 that no sum of some of them can overflow, rounded up or not.
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
