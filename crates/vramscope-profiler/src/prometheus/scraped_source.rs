//! A source and what was seen of it.

use std::sync::Arc;

use crate::source::{MemorySource, Reading, Ticker};

/// A source under a name of its own.
pub(super) struct ScrapedSource {
    source: Arc<dyn MemorySource>,
    ticker: Box<dyn Ticker>,
    /// The highest values that are known, and whether they are all there were.
    highest: Reading,
    is_exact: bool,
}

/// What a source says when it is asked. Nothing is known of one that fails.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scraped {
    pub(super) up: bool,
    pub(super) now: Reading,
    /// The highest since the endpoint began.
    pub(super) peak: Reading,
    /// The peak saw everything; else it is the highest of what was scraped.
    pub(super) peak_is_exact: bool,
    pub(super) inactive_split: Option<u64>,
}

impl ScrapedSource {
    pub(super) fn new(source: Arc<dyn MemorySource>) -> Self {
        let ticker = Arc::clone(&source).ticker();
        Self { source, ticker, highest: Reading::default(), is_exact: true }
    }

    /// Asks the source.
    pub(super) fn scrape(&mut self) -> Scraped {
        let Ok(tick) = self.ticker.tick() else { return Scraped::default() };
        self.highest = self.highest.max(tick.high).max(tick.now);
        self.is_exact &= tick.high_is_exact;
        Scraped {
            up: true,
            now: tick.now,
            peak: self.highest,
            peak_is_exact: self.is_exact,
            inactive_split: self.source.inactive_split_bytes(),
        }
    }
}
