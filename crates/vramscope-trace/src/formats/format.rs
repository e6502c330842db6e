//! [`Format`] and [`FormatReader`]: a format of recordings and its reader.

use std::fmt;

use super::window::Window;
use crate::error::ReadError;
use crate::notices::Notices;
use crate::trace::Trace;

/// Format of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A pickle of this protocol.
    Pickle {
        /// 2 to 5.
        protocol: u8,
    },
    /// JSON.
    Json,
    /// A recording written while the program ran.
    Log {
        /// Its version: 1 to 5.
        version: u32,
    },
    /// A log of RMM.
    Rmm,
    /// Events of msMemScope.
    Memscope,
    /// A Chrome trace of `torch.profiler`.
    TorchProfiler,
    /// JAX's profile of live memory.
    Jax,
    /// An SQLite export of Nsight Systems.
    Nsys,
    /// A format with a reader from another crate.
    Other {
        /// Name of the format.
        name: &'static str,
    },
}

impl Format {
    /// `pickle`, `json`, `log`, `rmm`, `msmemscope`, `torch_profiler`, `jax`, `nsys`, or the name of another format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pickle { .. } => "pickle",
            Self::Json => "json",
            Self::Log { .. } => "log",
            Self::Rmm => "rmm",
            Self::Memscope => "msmemscope",
            Self::TorchProfiler => "torch_profiler",
            Self::Jax => "jax",
            Self::Nsys => "nsys",
            Self::Other { name } => name,
        }
    }
}

impl fmt::Display for Format {
    /// Writes `pickle, protocol 4`, for example.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pickle { protocol } => write!(f, "pickle, protocol {protocol}"),
            Self::Json => f.write_str("JSON"),
            Self::Log { version } => write!(f, "log, version {version}"),
            Self::Rmm => f.write_str("log of RMM"),
            Self::Memscope => f.write_str("events of msMemScope"),
            Self::TorchProfiler => f.write_str("trace of torch.profiler"),
            Self::Jax => f.write_str("memory profile of JAX"),
            Self::Nsys => f.write_str("SQLite export of Nsight Systems"),
            Self::Other { name } => f.write_str(name),
        }
    }
}

/// A reader of one format of recordings. [`READERS`](super::READERS) has the readers of this crate. [`ReadOptions`](super::ReadOptions)
/// can add readers of other crates, which are tried first.
pub trait FormatReader: fmt::Debug + Sync {
    /// Whether a recording that begins with these bytes has this reader's format. Called with the first byte, and if no reader accepts
    /// it, again with the first 64 bytes (or all bytes of a shorter file). A file that no reader accepts is rejected.
    fn takes(&self, start: &[u8]) -> bool;

    /// Reads the whole stream from its first byte.
    ///
    /// # Errors
    /// If the stream fails or violates the format. Memory use should stay within a small multiple of the bytes read, for any stream.
    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError>;
}

/// Result of a reader.
#[derive(Debug)]
pub struct Contents {
    /// The trace.
    pub trace: Trace,
    /// Parts of the file that the trace does not include.
    pub notices: Notices,
    /// Format of the file.
    pub format: Format,
}
