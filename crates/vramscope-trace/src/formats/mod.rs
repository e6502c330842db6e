//! The formats a recording comes in: one file or folder a format, each with a [`FormatReader`] in [`READERS`].

mod ahead;
mod assembler;
mod compression;
mod format;
mod json;
mod keys;
pub mod log;
mod pickle;
mod window;

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread;

pub use compression::Compression;
pub use format::{Contents, Format, FormatReader};
pub use pickle::{write as write_pickle, write_file as write_pickle_file};
pub use window::Window;

use ahead::Ahead;
use compression::{Expanded, Taken, in_words};

use crate::error::ReadError;
use crate::notices::Notices;
use crate::trace::{DeviceTrace, Trace};
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

/// The readers of this crate, in the order in which they are asked.
pub const READERS: &[&dyn FormatReader] = &[&pickle::Pickle, &json::Json, &log::Log];

/// How recordings are read.
#[derive(Debug, Default, Clone, Copy)]
pub struct ReadOptions {
    /// How many bytes a compressed recording may expand to; `None` is 16 MiB and 250 times the compressed bytes,
    /// and `Some(u64::MAX)` no limit. Recordings expand to some forty times their compressed bytes.
    pub expanded_bytes: Option<u64>,
    /// Readers of other crates. They are asked before [`READERS`].
    pub readers: &'static [&'static dyn FormatReader],
}

/// Reads a snapshot or a [`log`] of any known form; the first bytes decide which, not a file's name.
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
    let taken = Taken::default();
    let stream = Expanded::new(stream, &taken, options.expanded_bytes)?;
    let compression = stream.compression();
    let progress = &mut || progress(taken.bytes());
    in_words(compression, read_plain(options, Window::new(WhenNeeded { stream, progress }), compression))
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
    if is_worth_a_thread(file) {
        read_ahead(options, file, progress)
    } else {
        read_with(options, file, progress)
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
    if !thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        return read_with(options, stream, progress);
    }
    let taken = Taken::default();
    let mut stream = Expanded::new(stream, &taken, options.expanded_bytes)?;
    let compression = stream.compression();
    let progress = &mut || progress(taken.bytes());
    let read = thread::scope(|scope| {
        let ahead = Ahead::start(scope, &mut stream, progress)?;
        io::Result::Ok(read_plain(options, Window::new(ahead), compression))
    });
    // Without a thread nothing was read yet.
    let read = read
        .unwrap_or_else(|_| read_plain(options, Window::new(WhenNeeded { stream, progress }), compression));
    in_words(compression, read)
}

fn read_plain(
    options: ReadOptions,
    mut window: Window<'_>,
    compression: Compression,
) -> Result<Recording, ReadError> {
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
    let Some(found) = found else { return Err(other_file(window.here())) };
    let Contents { trace, notices, format } = found.read(window)?;
    check_sizes(trace.devices.iter().chain(&trace.host))?;
    Ok(Recording { trace: Arc::new(trace), format, compression, notices })
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

/// Names a file of another kind by how it begins.
fn other_file(start: &[u8]) -> ReadError {
    const DUMP: &str = "give the file that `torch.cuda.memory._dump_snapshot` wrote";
    let (what, remedy) = match start {
        [] => return ReadError::Empty,
        [b'P', b'K', 3 | 5, ..] => ("a zip archive, as `torch.save` writes".to_owned(), DUMP),
        [b'(' | b']' | b'}', ..] => {
            ("a pickle of protocol 0 or 1".to_owned(), "write it again with `pickle.dump(.., protocol=4)`")
        }
        s if s.starts_with(b"version https://git-lfs") => {
            ("a Git LFS pointer".to_owned(), "fetch the file itself with `git lfs pull`")
        }
        s if s.starts_with(b"SQLite format 3") => ("an SQLite database".to_owned(), DUMP),
        s => match text_start(s) {
            Some(text) if text.starts_with('<') => (
                "a web page".to_owned(),
                "give the snapshot that it was made from; pages of `_memory_viz.py` are not read",
            ),
            Some(text) => (format!("text that begins \"{text}\""), DUMP),
            None => {
                let hex: Vec<String> = s.iter().take(4).map(|b| format!("{b:02x}")).collect();
                (format!("an unknown kind of file that begins with bytes {}", hex.join(" ")), DUMP)
            }
        },
    };
    ReadError::OtherFile { what, remedy }
}

/// The beginning of `start` where it is printable text.
fn text_start(start: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The last character may be cut.
        Err(e) if e.valid_up_to() + 4 > start.len() => std::str::from_utf8(&start[..e.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let printable = |c: &char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(|c| printable(&c)).then(|| text.chars().take(24).flat_map(char::escape_debug).collect())
}
