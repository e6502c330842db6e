//! Why a query fails.

use vramscope_analysis::NotAligned;
use vramscope_session::SessionError;
use vramscope_trace::ReadError;

/// Why a query fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The requested file is not open.
    #[error("file {0} is not open: another page may have closed it; reload this page")]
    NoFile(usize),
    /// The file has no such device.
    #[error("the file has no device at position {0}")]
    NoDevice(usize),
    /// The query is invalid.
    #[error("{0}")]
    Question(String),
    /// A dropped file cannot be read.
    #[error("{name}: {why}")]
    Unreadable {
        /// Its name.
        name: String,
        /// The cause.
        why: ReadError,
    },
    /// A trace of `torch.profiler` cannot be shown beside the recording.
    #[error("{name}: {why}")]
    NotAligned {
        /// The name of its file.
        name: String,
        /// The cause.
        why: NotAligned,
    },
    /// The recording of a rank cannot be read.
    #[error("{0}")]
    NotRead(String),
    /// A dropped file exceeds the size limit.
    #[error(
        "the file is larger than {}; give it to the command instead: vramscope view FILE",
        vramscope_report::bytes(*limit)
    )]
    TooLarge {
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The head of an answer is larger than 4 GiB, because the recording's names are too long.
    #[error("the recording's names are too long for a page")]
    TooMuch,
    /// The request is invalid, or the recording cannot answer it.
    #[error(transparent)]
    Request(SessionError),
    /// Serializing an answer failed.
    #[error("the answer cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// Compressing the data of a page failed.
    #[error("the page cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// The answering thread panicked.
    #[error("vramscope could not answer this request because of a bug; other requests still work")]
    Failed,
    /// The page closed the connection before the answer.
    #[error("the request was cancelled")]
    Unwanted,
    /// A dropped file stopped arriving, or arrived too slowly.
    #[error("the upload stalled or was too slow; drop the file again")]
    Stalled,
}

impl From<SessionError> for ViewError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Cancelled => Self::Unwanted,
            error => Self::Request(error),
        }
    }
}
