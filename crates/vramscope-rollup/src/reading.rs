//! [`Reading`]: how recordings are read.

use serde::{Deserialize, Serialize};
use vramscope_trace::formats::ReadOptions;

/// How recordings are read: as data, which goes to other machines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// How many bytes a compressed recording may expand to; `None` is the reader's own limit.
    pub expanded_bytes: Option<u64>,
    /// Summaries are made anew, and none is kept.
    pub no_cache: bool,
}

impl Reading {
    pub(crate) fn options(self) -> ReadOptions {
        ReadOptions { expanded_bytes: self.expanded_bytes, ..ReadOptions::default() }
    }
}
