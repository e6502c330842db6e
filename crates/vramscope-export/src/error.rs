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
}
