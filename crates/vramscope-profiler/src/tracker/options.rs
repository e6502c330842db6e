//! The options of a tracker, and its statistics.

use std::time::Duration;

use super::log::LogFile;
use super::thresholds::{Quantity, Severity, Threshold};
use crate::source::Reading;

/// How a tracker watches its source, and what it keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerOptions {
    /// The time between two samples.
    pub interval: Duration,
    /// The values from which on alerts are raised.
    pub thresholds: Vec<Threshold>,
    /// The time over which growth is measured; at least ten intervals are used. Growth is not known before nine tenths of it have
    /// passed.
    pub growth_window: Duration,
    /// Gives cached memory back when the device fills up.
    pub watchdog: Option<Watchdog>,
    /// A file to which every event and sample is written when it happens, so that a program that is killed leaves a complete log.
    pub log: Option<LogFile>,
    /// How many events are kept, and also how many alerts; at least one.
    pub max_events: usize,
    /// How many samples are kept, at least one.
    pub max_samples: usize,
}

impl Default for TrackerOptions {
    /// Ten samples a second; a warning at 80 % of the device, a critical alert at 95 %, and a warning where 20 % of the device are
    /// fragmented; 10,000 events and samples.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            thresholds: vec![
                Threshold::new(Quantity::DevicePercent, Severity::Warning, 80.0),
                Threshold::new(Quantity::DevicePercent, Severity::Critical, 95.0),
                Threshold::new(Quantity::ExternalFragmentationPercent, Severity::Warning, 20.0),
            ],
            growth_window: Duration::from_secs(60),
            watchdog: None,
            log: None,
            max_events: 10_000,
            max_samples: 10_000,
        }
    }
}

/// Gives cached memory back when the device fills up (gpumemprof's `MemoryWatchdog`). It does nothing where emptying the cache
/// would give nothing back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watchdog {
    /// The percentage of the device in use from which on it acts, from 0 to 100.
    pub above_percent: f64,
    /// The least time between two cleanups.
    pub min_interval: Duration,
}

impl Default for Watchdog {
    /// From 90 %, every 30 seconds at most.
    fn default() -> Self {
        Self { above_percent: 90.0, min_interval: Duration::from_secs(30) }
    }
}

/// Counts of what a tracker has seen so far.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct TrackerStatistics {
    /// The number of samples that were taken.
    pub samples: u64,
    /// The number of samples that were left out, because the one before took longer than the interval.
    pub missed_ticks: u64,
    /// How many times the source could not be read.
    pub errors: u64,
    /// The highest values, each at its own moment.
    pub high: Reading,
    /// Whether `high` is exact. Otherwise the true values are at least as high.
    pub high_is_exact: bool,
    /// The number of alerts that were raised.
    pub alerts: u64,
    /// How many times the watchdog gave memory back.
    pub cleanups: u64,
    /// The number of requests that failed because they were out of memory.
    pub failed_requests: u64,
    /// How many times the allocator gave its whole cache back to serve a request.
    pub retries: u64,
    /// How many times a callback panicked.
    pub callback_panics: u64,
}
