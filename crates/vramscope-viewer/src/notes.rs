//! Notes of a reader of the page.

use serde::{Deserialize, Serialize};

/// A note on an interval between two moments of a device. If both moments are the same, it is a note on the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Note {
    /// The position of the file on its page.
    pub file: usize,
    /// The position of the device in the file.
    pub device: usize,
    /// The first moment.
    pub from: usize,
    /// The last moment.
    pub to: usize,
    /// The text, on one line.
    pub text: String,
}

/// Requests a self-contained page with recordings.
#[derive(Debug, Deserialize)]
pub(crate) struct PageQuery {
    /// The positions of its files.
    pub(crate) files: Vec<usize>,
    /// Notes on them, by the file positions on that page.
    pub(crate) notes: Vec<Note>,
}
