//! The formats a recording comes in: one file or folder a format.

mod assembler;
mod json;
mod keys;
pub mod log;
mod pickle;
mod window;

use std::cell::Cell;
use std::io::{self, BufReader, Read};

pub use pickle::write as write_pickle;

use crate::error::ReadError;
use crate::notices::Notices;
use crate::trace::Trace;
use window::Window;

/// A trace, and how its file held it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What happened.
    pub trace: Trace,
    /// The form it had.
    pub format: Format,
    /// How it was compressed.
    pub compression: Compression,
    /// What did not reach the trace.
    pub notices: Notices,
}

/// The form of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A pickle of this protocol.
    Pickle {
        /// 2 to 5.
        protocol: u8,
    },
    /// JSON.
    Json,
    /// A recording that was written while the program ran.
    Log {
        /// Its version: 1 or 2.
        version: u32,
    },
}

impl Format {
    /// `pickle`, `json` or `log`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pickle { .. } => "pickle",
            Self::Json => "json",
            Self::Log { .. } => "log",
        }
    }
}

/// How a file was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// `none`, `gzip` or `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Reads a snapshot or a [`log`] of any known form; the first bytes decide which, not a file's name.
///
/// `progress` is told how many bytes of `stream` have been read, now and then.
///
/// # Errors
/// Where the stream fails or holds neither. Memory stays within a small multiple of what was
/// read, whatever the stream holds, and nothing in it can run code.
pub fn read(stream: impl Read, progress: &mut dyn FnMut(u64)) -> Result<Recording, ReadError> {
    let read = Cell::new(0);
    let stream = Counted { stream, read: &read, progress };
    let mut window = Window::new(stream);
    window.fill(4)?;
    let compression = match *window.here() {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        _ => return read_plain(window, Compression::None),
    };
    let stream: Box<dyn Read + '_> = match compression {
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(window))),
        _ => Box::new(zstd::stream::read::Decoder::new(window)?),
    };
    let stream = Bounded { stream, compressed: &read, expanded: 0 };
    read_plain(Window::new(stream), compression).map_err(|e| match e {
        ReadError::Io(e) => ReadError::Compressed { name: compression.name(), why: e.to_string() },
        e => e,
    })
}

fn read_plain<R: Read>(mut window: Window<R>, compression: Compression) -> Result<Recording, ReadError> {
    window.fill(64)?;
    let (trace, notices, format) = match *window.here() {
        [] => return Err(ReadError::Empty),
        [0x80, ..] => {
            let (trace, notices, protocol) = pickle::read(window)?;
            (trace, notices, Format::Pickle { protocol })
        }
        [b'{' | b'[' | b' ' | b'\n' | b'\r' | b'\t', ..] => {
            let (trace, notices) = json::read(window)?;
            (trace, notices, Format::Json)
        }
        _ if window.here().starts_with(&log::MAGIC) => {
            let (trace, notices, version) = log::read(window)?;
            (trace, notices, Format::Log { version })
        }
        _ => return Err(other_file(window.here())),
    };
    Ok(Recording { trace, format, compression, notices })
}

/// Names a file of another kind by how it begins.
fn other_file(start: &[u8]) -> ReadError {
    const DUMP: &str = "give the file that `torch.cuda.memory._dump_snapshot` wrote";
    let (what, remedy) = match start {
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

/// Tells how far a stream has been read.
struct Counted<'p, R> {
    stream: R,
    read: &'p Cell<u64>,
    progress: &'p mut dyn FnMut(u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(out)?;
        self.read.set(self.read.get() + n as u64);
        (self.progress)(self.read.get());
        Ok(n)
    }
}

/// Stops a stream that expands beyond all reason: real recordings shrink to a fiftieth.
struct Bounded<'c, R> {
    stream: R,
    compressed: &'c Cell<u64>,
    expanded: u64,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        const FREE: u64 = 16 << 20;
        const MOST: u64 = 1000;
        let n = self.stream.read(out)?;
        self.expanded += n as u64;
        if self.expanded > FREE + MOST * self.compressed.get() {
            return Err(io::Error::other("it expands more than a thousandfold"));
        }
        Ok(n)
    }
}
