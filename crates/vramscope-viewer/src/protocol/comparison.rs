//! What changed between two recordings.

use serde::Serialize;

/// What changed from one recording to another at the peaks of their allocated bytes, in the words of `vramscope diff`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Comparison {
    /// By how much the peaks differ, in a sentence.
    pub(crate) verdict: String,
    /// Most telling first.
    pub(crate) changes: Vec<WhatChanged>,
    /// Empty where one of the two does not tell categories.
    pub(crate) categories: Vec<Held>,
}

/// One thing that changed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct WhatChanged {
    /// The rule that found it, as `vramscope diff --json` names it.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// Bytes that it holds in the first recording, and in the second.
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// It is more than one percent of all that differs.
    pub(crate) counts: bool,
    /// The lines of it that differ most.
    pub(crate) lines: Vec<Held>,
}

/// What a line or a category holds in both.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) a: u64,
    pub(crate) b: u64,
}
