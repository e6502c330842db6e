use serde::{Deserialize, Serialize};

/// A note on what happened between two moments of a device, or on a moment, where they are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Note {
    /// The position of the file among those of its page.
    pub file: usize,
    /// The position of the device in the file.
    pub device: usize,
    /// The first moment.
    pub from: usize,
    /// The last moment.
    pub to: usize,
    /// What was written, in one line.
    pub text: String,
}

/// What is asked for a page that carries recordings.
#[cfg(feature = "server")]
#[derive(Debug, Deserialize)]
pub(crate) struct PageQuery {
    /// The positions of its files.
    pub(crate) files: Vec<usize>,
    /// Notes on them, by their positions in that page.
    pub(crate) notes: Vec<Note>,
}
