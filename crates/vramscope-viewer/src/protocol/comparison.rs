//! The changes between two recordings.

use serde::Serialize;

/// The changes from one recording to another at the peaks of their allocated bytes, in the wording of `vramscope diff`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Comparison {
    /// The difference of the peaks, in a sentence.
    pub(crate) verdict: String,
    /// Most significant first.
    pub(crate) changes: Vec<WhatChanged>,
    /// Empty if one of the two recordings has no categories.
    pub(crate) categories: Vec<Held>,
}

/// One change.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct WhatChanged {
    /// The rule that found it, as in `vramscope diff --json`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// Its bytes in the first recording, and in the second.
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// Whether it is more than one percent of the total difference.
    pub(crate) counts: bool,
    /// Its lines with the largest differences.
    pub(crate) lines: Vec<Held>,
}

/// The bytes of a line or a category in both recordings.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) a: u64,
    pub(crate) b: u64,
}
