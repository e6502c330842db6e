//! Why a request fails.

/// Why a request fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// An argument is invalid, whatever the recording is.
    #[error("{0}")]
    Argument(String),
    /// The recording has no such device, event or step.
    #[error("{0}")]
    Missing(String),
    /// The recording cannot answer the question.
    #[error("{0}")]
    Unanswerable(String),
    /// The request was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl From<serde_json::Error> for SessionError {
    fn from(error: serde_json::Error) -> Self {
        Self::Unanswerable(format!("the answer cannot be written: {error}"))
    }
}

impl SessionError {
    /// The message, with the recording's name where the message is about the recording.
    #[must_use]
    pub fn about(&self, recording: &str) -> String {
        match self {
            Self::Argument(why) => why.clone(),
            _ => format!("{recording}: {self}"),
        }
    }
}

/// A result with the error of a request.
pub(crate) type Result<T> = std::result::Result<T, SessionError>;
