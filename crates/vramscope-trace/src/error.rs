//! Why a file could not be read.

use std::io;

use thiserror::Error;

/// Why a file could not be read. Each message is one line: what was wrong, where, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system failed the read.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// No bytes at all.
    #[error("the file is empty; was the recording process killed before it wrote the snapshot?")]
    Empty,
    /// Some other kind of file, known by its first bytes.
    #[error("not a memory snapshot but {what}; {remedy}")]
    OtherFile {
        /// What it looks like.
        what: String,
        /// What the user can do.
        remedy: &'static str,
    },
    /// The file stops before the pickle does.
    #[error("the file ends at byte {offset}, inside {inside}: it is truncated; copy or record it again")]
    Truncated {
        /// Length of what was there, in bytes.
        offset: u64,
        /// What was being read.
        inside: &'static str,
    },
    /// An opcode that can call code. Nothing was run.
    #[error(
        "refused opcode {name} at byte {offset}: {why}, and a memory snapshot never needs it; this is another kind of pickle, or a hostile one"
    )]
    Refused {
        /// The opcode's name in CPython's `pickletools`.
        name: &'static str,
        /// Where it stands.
        offset: u64,
        /// What it could do.
        why: &'static str,
    },
    /// The pickle breaks its own rules, or a limit that no snapshot comes near.
    #[error("byte {offset}: {what}; the file is damaged or not a memory snapshot")]
    Damaged {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A recording of another version.
    #[error(
        "byte 8: the recording has version {version}, and this vramscope reads versions 1 to {known}; update vramscope"
    )]
    LogVersion {
        /// The recording's.
        version: u32,
        /// The last one that is read.
        known: u32,
    },
    /// A recording breaks its own rules before its end.
    #[error("byte {offset}: {what}; the recording is damaged: copy it again from where it was written")]
    DamagedLog {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The decompressor failed.
    #[error("the {name} data is damaged or cut off ({why}); copy the file again")]
    Compressed {
        /// `gzip` or `zstd`.
        name: &'static str,
        /// What the decompressor says.
        why: String,
    },
    /// The program was built without the feature `zstd` of `vramscope-trace`.
    #[error("zstd data, which this program was built without; unpack it first: zstd -d")]
    WithoutZstd,
    /// The program was built without the feature `csv` of `vramscope-trace`.
    #[error("a log of samples as CSV, which this program was built without; log as JSON Lines")]
    WithoutCsv,
    /// The decompressor brings more than any recording would.
    #[error(
        "the {name} data expands to more than {most} bytes, further than recordings do; if you trust it, unpack it first and read what comes out"
    )]
    Expands {
        /// `gzip` or `zstd`.
        name: &'static str,
        /// The limit, in bytes.
        most: u64,
    },
    /// The recording takes more memory than [`ReadOptions::memory_bytes`](crate::formats::ReadOptions::memory_bytes) allows.
    #[error("takes more than {most} bytes of memory, the limit for a recording")]
    Memory {
        /// The limit, in bytes.
        most: u64,
    },
    /// The JSON breaks its rules.
    #[error("not a JSON snapshot: {0}")]
    Json(String),
    /// The data is sound but is not a snapshot.
    #[error("{path}: {what}")]
    Schema {
        /// Where in the snapshot, such as `device_traces[0][17]`.
        path: String,
        /// What is wrong, with the byte offset where the record stands.
        what: String,
    },
    /// Readable, but nothing in it looks like a snapshot.
    #[error(
        "holds {what}, not a memory snapshot; record one with `torch.cuda.memory._record_memory_history()` and write it with `torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")`"
    )]
    NotASnapshot {
        /// What it holds.
        what: &'static str,
    },
    /// A log of samples, where a recording is needed.
    #[error(
        "a log of samples, not a recording: it knows no allocations; `vramscope report` explains it, and `vramscope run` or `vramscope.torch.record` makes a recording"
    )]
    Samples,
    /// A log of samples in which nothing can be read.
    #[error("none of the {rows} rows of this log can be read; copy it again from where it was written")]
    NoSamples {
        /// How many rows there are.
        rows: u64,
    },
    /// More distinct entries than ids can count.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// A table has more entries than 32-bit ids can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("more than 4 billion distinct {0} entries; split the recording with `max_entries`")]
pub struct TableFull(pub(crate) &'static str);

impl From<io::Error> for ReadError {
    /// One of our own that went through a stream comes out as it was.
    fn from(e: io::Error) -> Self {
        e.downcast().unwrap_or_else(Self::Io)
    }
}
