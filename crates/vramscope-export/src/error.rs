//! [`ExportError`]: why an export failed.

use std::io;

use thiserror::Error;

/// Why an export failed.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The output cannot be written.
    #[error("cannot write the output")]
    Io(#[from] io::Error),
    /// The Parquet writer refused.
    #[error("cannot write Parquet")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// No device has allocated bytes at the event, so a flame graph would be empty.
    #[error("no memory is allocated at this event, so there is nothing to draw; choose another event")]
    NothingAllocated,
    /// A log needs the time of each event.
    #[error("some events have no time, which a log needs; choose another format, such as pickle")]
    NoTime,
    /// A log cannot name other devices than those of CUDA.
    #[error(
        "a log does not name the kind of its devices, and these are not CUDA's; choose another format, such as pickle"
    )]
    NotCuda,
    /// A table in memory would have more text than the limit. All known recordings are below it.
    #[cfg(feature = "arrow")]
    #[error(
        "the table has more than {most} bytes of distinct texts, which is too much for a table in memory; export it as parquet or csv"
    )]
    TooMuchText {
        /// The limit in bytes.
        most: usize,
    },
    /// The export was cancelled.
    #[cfg(feature = "arrow")]
    #[error("cancelled")]
    Cancelled,
    /// The Arrow library returned an error.
    #[cfg(feature = "arrow")]
    #[error("cannot make an Arrow table")]
    Arrow(#[from] arrow_schema::ArrowError),
}
