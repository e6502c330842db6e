//! What a format of recordings is, to those who read one.

use std::fmt;

use super::window::Window;
use crate::error::ReadError;
use crate::notices::Notices;
use crate::trace::Trace;

/// The form of a recording.
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
    /// A recording that was written while the program ran.
    Log {
        /// Its version: 1 to 3.
        version: u32,
    },
    /// A form whose reader is not of this crate.
    Other {
        /// What it is called.
        name: &'static str,
    },
}

impl Format {
    /// `pickle`, `json`, `log`, or another form's own name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pickle { .. } => "pickle",
            Self::Json => "json",
            Self::Log { .. } => "log",
            Self::Other { name } => name,
        }
    }
}

impl fmt::Display for Format {
    /// `pickle, protocol 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pickle { protocol } => write!(f, "pickle, protocol {protocol}"),
            Self::Json => f.write_str("JSON"),
            Self::Log { version } => write!(f, "log, version {version}"),
            Self::Other { name } => f.write_str(name),
        }
    }
}

/// A reader of one form of recordings. Those of this crate are [`READERS`](super::READERS); readers of other crates are
/// given with [`ReadOptions`](super::ReadOptions), and are asked first.
pub trait FormatReader: fmt::Debug + Sync {
    /// A recording that begins with these bytes is of this form. The question comes with the first byte, and where
    /// nobody takes that, once more with the first 64, or all of a shorter file: what no reader takes is refused.
    fn takes(&self, start: &[u8]) -> bool;

    /// Reads all of it, from the first byte on.
    ///
    /// # Errors
    /// Where the stream fails or breaks the rules of the form. Memory should stay within a small multiple of what was
    /// read, whatever the stream holds.
    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError>;
}

/// What a reader found.
#[derive(Debug)]
pub struct Contents {
    /// What happened.
    pub trace: Trace,
    /// What did not reach the trace.
    pub notices: Notices,
    /// The form it had.
    pub format: Format,
}
