//! Errors of reading a file.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Error of reading a file. Each message is one line: what is wrong, where, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system reported a read error.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file cannot be opened, or is a folder.
    #[error("{}: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what the user can do.
        why: String,
        /// The error of the operating system. `why` describes it, so it is not a source of this error.
        error: io::Error,
    },
    /// Reading was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The file has no bytes.
    #[error("the file is empty; was the recording process killed before it wrote the snapshot?")]
    Empty,
    /// Another kind of file, recognized by its first bytes.
    #[error("not a memory snapshot but {what}; {remedy}")]
    OtherFile {
        /// The kind of file.
        what: String,
        /// What the user can do.
        remedy: &'static str,
    },
    /// The file ends before the pickle does.
    #[error("the file ends at byte {offset}, inside {inside}: it is truncated; copy or record it again")]
    Truncated {
        /// Length of the file in bytes.
        offset: u64,
        /// The element that the file ends in.
        inside: &'static str,
    },
    /// An opcode that could run code. The reader ran nothing.
    #[error(
        "refused opcode {name} at byte {offset}: {why}, and a memory snapshot never needs it; this is another kind of pickle, or a hostile one"
    )]
    Refused {
        /// The opcode's name in CPython's `pickletools`.
        name: &'static str,
        /// Byte offset of the opcode.
        offset: u64,
        /// What the opcode could do.
        why: &'static str,
    },
    /// The pickle is invalid, or exceeds a limit far above any snapshot.
    #[error("byte {offset}: {what}; the file is damaged or not a memory snapshot")]
    Damaged {
        /// Byte offset.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A recording of an unknown version.
    #[error(
        "byte 8: the recording has version {version}, and this vramscope reads versions 1 to {known}; update vramscope"
    )]
    LogVersion {
        /// Version of the recording.
        version: u32,
        /// Latest version that the reader supports.
        known: u32,
    },
    /// A recording is invalid before its end.
    #[error("byte {offset}: {what}; the recording is damaged: copy it again from where it was written")]
    DamagedLog {
        /// Byte offset.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The file is not a trace of `torch.profiler`.
    #[error("not a trace of `torch.profiler`; write one with `prof.export_chrome_trace(\"trace.json\")`")]
    NotOperators,
    /// A trace of `torch.profiler` is invalid or ends early.
    #[error("byte {offset}: {what}; the trace is cut off or damaged: export it again")]
    DamagedOperators {
        /// Byte offset.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The decompressor reported an error.
    #[error("the {name} data is damaged or cut off ({why}); copy the file again")]
    Compressed {
        /// `gzip` or `zstd`.
        name: &'static str,
        /// Message of the decompressor.
        why: String,
    },
    /// The program was built without the feature `zstd` of `vramscope-trace`.
    #[error("this program was built without zstd support; decompress the file first: zstd -d")]
    WithoutZstd,
    /// The decompressed data is larger than any recording's.
    #[error(
        "the {name} data expands to more than {most} bytes, more than any recording does; if you trust the file, decompress it first and read the result"
    )]
    Expands {
        /// `gzip` or `zstd`.
        name: &'static str,
        /// The limit, in bytes.
        most: u64,
    },
    /// The recording needs more memory than [`ReadOptions::memory_bytes`](crate::formats::ReadOptions::memory_bytes) allows.
    #[error("takes more than {most} bytes of memory, the limit for a recording")]
    Memory {
        /// The limit, in bytes.
        most: u64,
    },
    /// The JSON is invalid.
    #[error("not a JSON snapshot: {0}")]
    Json(String),
    /// The data is valid but is not a snapshot.
    #[error("{path}: {what}")]
    Schema {
        /// Path in the snapshot, such as `device_traces[0][17]`.
        path: String,
        /// What is wrong, with the byte offset of the record.
        what: String,
    },
    /// The data is valid, but does not resemble a snapshot.
    #[error(
        "holds {what}, not a memory snapshot; record one with `torch.cuda.memory._record_memory_history()` and write it with `torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")`"
    )]
    NotASnapshot {
        /// What the file contains.
        what: &'static str,
    },
    /// A log of samples in place of a recording.
    #[error(
        "a log of samples, not a recording: it has no allocations; `vramscope report` reads it, and `vramscope run` or `vramscope.torch.record` makes a recording"
    )]
    Samples,
    /// A log of samples without a readable row.
    #[error("none of the {rows} rows of this log can be read; copy it again from where it was written")]
    NoSamples {
        /// Number of rows in the log.
        rows: u64,
    },
    /// More distinct entries than an id can count.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// A table has more entries than 32-bit ids can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("more than 4 billion distinct {0} entries; split the recording with `max_entries`")]
pub struct TableFull(pub(crate) &'static str);

/// The description of text of no known format.
pub(crate) const TEXT: &str = "text that begins";

impl ReadError {
    /// Whether the file is text of no known format, such as the log of a job.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self, Self::OtherFile { what, .. } if what.starts_with(TEXT))
    }
}

impl From<io::Error> for ReadError {
    /// Unwraps a `ReadError` that passed through a stream as an I/O error.
    fn from(e: io::Error) -> Self {
        e.downcast().unwrap_or_else(Self::Io)
    }
}
