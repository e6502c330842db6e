//! Why a question has no answer.

use vramscope_analysis::ReplayError;
use vramscope_trace::ReadError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The page asks for a file that is not open.
    #[error("file {0} is not open: it was closed, perhaps by another page; load this page again")]
    NoFile(usize),
    /// The page asks for a device that the file does not have.
    #[error("the file has no device at position {0}")]
    NoDevice(usize),
    /// The question makes no sense.
    #[error("{0}")]
    Question(String),
    /// A dropped file cannot be read.
    #[error("{name}: {why}")]
    Unreadable {
        /// Its name.
        name: String,
        /// Why.
        why: ReadError,
    },
    /// The recording of a rank cannot be read.
    #[error("{0}")]
    NotRead(String),
    /// A dropped file is larger than the page takes.
    #[error(
        "the file is larger than {}; give it to the command instead: vramscope view FILE",
        vramscope_report::bytes(*limit)
    )]
    TooLarge {
        /// The most bytes it may have.
        limit: u64,
    },
    /// The head of an answer is longer than 4 GiB: the recording's names are too long.
    #[error("the recording's names are too long for a page")]
    TooMuch,
    /// The recording cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// An answer cannot be written out.
    #[error("the answer cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// The data of a page cannot be compressed.
    #[error("the page cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// The thread that answers has failed, by a fault of vramscope.
    #[error("the question could not be answered; that is a fault of vramscope, and other questions go on")]
    Failed,
    /// The page closed the connection before it had the answer.
    #[error("the answer is no longer wanted")]
    Unwanted,
    /// A dropped file stopped arriving, or came too slowly.
    #[error("the file stopped arriving, or came too slowly; drop it again")]
    Stalled,
}
