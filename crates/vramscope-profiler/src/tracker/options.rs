//! What a tracker is asked to do, and why it refuses.

use std::time::Duration;

use super::log::LogFile;
use super::thresholds::{Quantity, Severity, Threshold};
use crate::source::Reading;

/// What a tracker does.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerOptions {
    /// The time between two looks.
    pub interval: Duration,
    /// When to raise alerts.
    pub thresholds: Vec<Threshold>,
    /// The time over which growth is measured, at least ten intervals. Before nine tenths of it have passed, none is
    /// known.
    pub growth_window: Duration,
    /// Frees cached memory.
    pub watchdog: Option<Watchdog>,
    /// A file that every event and sample is written to at once; a program that is killed leaves it whole.
    pub log: Option<LogFile>,
    /// Events that are kept, and apart from them as many alerts.
    pub max_events: usize,
    /// Samples that are kept.
    pub max_samples: usize,
}

impl Default for TrackerOptions {
    /// Ten looks a second; a warning at 80 % of the device, an alarm at 95 %, a warning where 20 % of it are lost
    /// between blocks; 10,000 events and samples.
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

/// Gives cached memory back when the device fills up (gpumemprof's `MemoryWatchdog`): only what emptying the cache
/// does give back, and only where there is some.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watchdog {
    /// From this percentage of the device.
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

/// What was seen so far.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct TrackerStatistics {
    /// Samples that were taken.
    pub samples: u64,
    /// Ticks that were left out, because looking took too long.
    pub missed_ticks: u64,
    /// Looks that had no answer.
    pub errors: u64,
    /// The highest of each kind.
    pub high: Reading,
    /// `high` saw everything; else the truth is at least that.
    pub high_is_exact: bool,
    /// Alerts that were raised.
    pub alerts: u64,
    /// Cleanups by the watchdog.
    pub cleanups: u64,
    /// Requests that failed for want of memory.
    pub failed_requests: u64,
    /// Times the allocator gave its whole cache back to serve a request.
    pub retries: u64,
    /// Callbacks that panicked.
    pub callback_panics: u64,
}
