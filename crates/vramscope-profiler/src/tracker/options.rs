//! The options of a tracker, and its statistics.

use std::time::Duration;

use super::log::LogFile;
use super::thresholds::{AlertQuantity, Severity, Threshold};
use crate::source::Reading;

/// Options of a tracker.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerOptions {
    /// The time between two samples.
    pub interval: Duration,
    /// The thresholds that raise alerts.
    pub thresholds: Vec<Threshold>,
    /// The time over which growth is measured, at least ten intervals. Growth is unknown before it has passed.
    pub growth_window: Duration,
    /// Releases cached memory when the device fills up.
    pub watchdog: Option<Watchdog>,
    /// A file that receives every event and sample when it happens, so a killed program leaves a complete log.
    pub log: Option<LogFile>,
    /// Maximum number of kept events, and of kept alerts; at least 1.
    pub max_events: usize,
    /// Maximum number of kept samples, at least 1.
    pub max_samples: usize,
}

impl Default for TrackerOptions {
    /// Ten samples per second; a warning at 80 % of the device, a critical alert at 95 %, and a warning if 20 % of the device are
    /// fragmented; 10,000 events and samples.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            thresholds: vec![
                Threshold::new(AlertQuantity::DevicePercent, Severity::Warning, 80.0),
                Threshold::new(AlertQuantity::DevicePercent, Severity::Critical, 95.0),
                Threshold::new(AlertQuantity::ExternalFragmentationPercent, Severity::Warning, 20.0),
            ],
            growth_window: Duration::from_secs(60),
            watchdog: None,
            log: None,
            max_events: 10_000,
            max_samples: 10_000,
        }
    }
}

/// Releases cached memory when the device fills up (gpumemprof's `MemoryWatchdog`). Does nothing if emptying the cache would release
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watchdog {
    /// The percentage of used device memory from which it acts, from 0 to 100.
    pub above_percent: f64,
    /// Minimum time between two cleanups.
    pub min_interval: Duration,
}

impl Default for Watchdog {
    /// From 90 %, at most every 30 seconds.
    fn default() -> Self {
        Self { above_percent: 90.0, min_interval: Duration::from_secs(30) }
    }
}

/// Counts of a tracker so far.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct TrackerStatistics {
    /// Number of samples.
    pub samples: u64,
    /// Number of skipped samples, because the previous one took longer than the interval.
    pub missed_ticks: u64,
    /// Number of failed readings of the source.
    pub errors: u64,
    /// The peaks, each at its own moment.
    pub high: Reading,
    /// Whether `high` is exact. Otherwise the true values are at least as high.
    pub high_is_exact: bool,
    /// Number of raised alerts.
    pub alerts: u64,
    /// Number of times the watchdog released memory.
    pub cleanups: u64,
    /// Number of requests that failed because memory ran out.
    pub failed_requests: u64,
    /// Number of times the allocator released its whole cache to serve a request.
    pub retries: u64,
    /// Number of panics in callbacks.
    pub callback_panics: u64,
}
