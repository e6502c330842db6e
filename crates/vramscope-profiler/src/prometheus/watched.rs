//! A source and what was seen of it.

use std::sync::Arc;

use crate::source::{MemorySource, Reading, Watch};

/// A source under a name of its own.
pub(super) struct Watched {
    source: Arc<dyn MemorySource>,
    /// Sees the highest values, where the source knows them.
    watch: Option<Box<dyn Watch>>,
    /// The highest values that are known.
    highest: Reading,
}

/// What a source says when it is asked. Nothing is known of one that fails.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) up: bool,
    pub(super) now: Reading,
    /// The highest since the endpoint began.
    pub(super) peak: Reading,
    /// The peak saw everything; else it is the highest of what was scraped.
    pub(super) peak_is_exact: bool,
    pub(super) inactive_split: Option<u64>,
}

impl Watched {
    pub(super) fn new(source: Arc<dyn MemorySource>) -> Self {
        let watch = source.watch();
        Self { source, watch, highest: Reading::default() }
    }

    /// Asks the source.
    pub(super) fn look(&mut self) -> Seen {
        let Ok(now) = self.source.read() else { return Seen::default() };
        let peaks = self.watch.as_ref().map(|watch| watch.peaks()).unwrap_or_default();
        self.highest = self.highest.max(peaks).max(now);
        Seen {
            up: true,
            now,
            peak: self.highest,
            peak_is_exact: self.watch.is_some(),
            inactive_split: self.source.inactive_split_bytes(),
        }
    }
}
