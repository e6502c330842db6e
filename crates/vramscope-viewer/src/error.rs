//! Why a query fails.

use vramscope_session::SessionError;
use vramscope_trace::ReadError;

/// Why a query fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The requested file is not open.
    #[error("file {0} is not open: another page may have closed it; reload this page")]
    NoFile(usize),
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
    /// The request is invalid, or the recording cannot answer it.
    #[error(transparent)]
    Request(#[from] SessionError),
    /// Serializing an answer failed.
    #[error("the answer cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// Compressing the data of a page failed.
    #[error("the page cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// The answering thread panicked.
    #[error("vramscope could not answer this request because of a bug; other requests still work")]
    Failed,
    /// A dropped file stopped arriving, or arrived too slowly.
    #[error("the upload stalled or was too slow; drop the file again")]
    Stalled,
}
