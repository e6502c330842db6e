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
    /// No device has anything allocated at the moment, so that a flame graph has no flames.
    #[error("nothing is allocated at this moment, so there is nothing to draw; choose another moment")]
    NothingAllocated,
    /// A table in memory would hold more texts than known recordings have: only a hostile one does.
    #[cfg(feature = "arrow")]
    #[error(
        "the table has more than {most} bytes of different texts, more than a table in memory takes; export it as parquet or csv"
    )]
    TooMuchText {
        /// The most bytes.
        most: usize,
    },
    /// Nobody waits for the table any more.
    #[cfg(feature = "arrow")]
    #[error("cancelled")]
    Cancelled,
    /// The Arrow library refused what it was given.
    #[cfg(feature = "arrow")]
    #[error("cannot make an Arrow table")]
    Arrow(#[from] arrow_schema::ArrowError),
}
