//! [`ReadingOptions`]: options for reading recordings. [`OpenSessions`]: recordings that are not read, because they are open in this process.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_session::Session;
use vramscope_trace::formats::ReadOptions;

/// Recordings that are open in this process, by the names of their files. A query does not read these files.
pub type OpenSessions = HashMap<String, Arc<Session>>;

/// Options for reading recordings, as data that can be sent to other machines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingOptions {
    /// Limit on the decompressed size of a recording in bytes; `None` is the reader's default.
    pub expanded_bytes: Option<u64>,
    /// Whether to neither read nor write cached summaries.
    pub no_cache: bool,
}

impl ReadingOptions {
    pub(crate) fn options(self) -> ReadOptions {
        ReadOptions { expanded_bytes: self.expanded_bytes, ..ReadOptions::default() }
    }
}
