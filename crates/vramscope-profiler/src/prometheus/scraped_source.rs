//! A source of an endpoint, and its state between scrapes.

use std::sync::Arc;

use crate::source::{MemorySource, Reading, Ticker};

/// A source with its peaks since the endpoint started.
pub(super) struct ScrapedSource {
    source: Arc<dyn MemorySource>,
    ticker: Box<dyn Ticker>,
    /// The peaks so far, and whether they are exact.
    highest: Reading,
    is_exact: bool,
}

/// The values of a source after a scrape; empty for a source that failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scraped {
    pub(super) up: bool,
    pub(super) now: Reading,
    /// The peaks since the endpoint started.
    pub(super) peak: Reading,
    /// Whether the peaks are exact. Otherwise they are the highest scraped values.
    pub(super) peak_is_exact: bool,
    pub(super) inactive_split: Option<u64>,
}

impl ScrapedSource {
    pub(super) fn new(source: Arc<dyn MemorySource>) -> Self {
        let ticker = Arc::clone(&source).ticker();
        Self { source, ticker, highest: Reading::default(), is_exact: true }
    }

    /// Reads the source.
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
