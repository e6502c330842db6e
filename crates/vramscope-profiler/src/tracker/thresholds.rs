//! Thresholds: when an alert is raised, and when it ends.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use vramscope_basics::units::bytes;

use crate::monitor::Sample;

/// A monitored value. An alert is raised once when it reaches `above`, and again only after the value has fallen to `until`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The monitored value.
    pub quantity: AlertQuantity,
    /// The severity of the threshold's alerts.
    pub severity: Severity,
    /// The value from which an alert is raised, in the quantity's unit.
    pub above: f64,
    /// The value at which the alert ends, in the quantity's unit; at most `above`.
    pub until: f64,
    /// Minimum time between two alerts of this threshold. An earlier alert is delayed until the time has passed, and raised if the value is
    /// still reached then.
    pub min_interval: Duration,
}

/// The monitored quantities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertQuantity {
    /// Peak use of the device by all processes since the previous sample, in percent of the device.
    DevicePercent,
    /// Cached bytes that emptying the cache would not release, because their segments contain live blocks, in percent of the device.
    /// Measured at most once a second.
    ExternalFragmentationPercent,
    /// Growth of allocated bytes, in bytes per minute: the lowest values in the thirds of the
    /// [window](super::TrackerOptions::growth_window), and the smaller of the two steps between them. So memory that is allocated and freed
    /// in every step, and memory that is allocated once, does not count.
    GrowthPerMinute,
    /// Device bytes in use that the pool did not reserve, such as contexts, workspaces of libraries and other processes.
    Hidden,
}

/// The severity of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth checking.
    Warning,
    /// The program may soon fail.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

impl Threshold {
    /// Creates a threshold with an alert that is raised at `above` and ends at nine tenths of it, at most every ten seconds.
    pub fn new(quantity: AlertQuantity, severity: Severity, above: f64) -> Self {
        let AlertLimits { above, until, min_interval } = AlertLimits::new(above);
        Self { quantity, severity, above, until, min_interval }
    }

    pub(super) fn is_sensible(&self) -> bool {
        let most = match self.quantity {
            // A percentage of the device is at most 100.
            AlertQuantity::DevicePercent | AlertQuantity::ExternalFragmentationPercent => 100.0,
            AlertQuantity::GrowthPerMinute | AlertQuantity::Hidden => f64::MAX,
        };
        self.until.is_finite() && self.until <= self.above && self.above <= most
    }

    pub(super) fn is_of(&self, quantity: AlertQuantity, severity: Severity) -> bool {
        self.quantity == quantity && self.severity == severity
    }
}

impl AlertQuantity {
    /// Formats a value of this quantity with its unit.
    fn in_words(self, value: f64) -> String {
        match self {
            Self::DevicePercent | Self::ExternalFragmentationPercent => format!("{value:.1} %"),
            Self::GrowthPerMinute => format!("{} per minute", bytes(value.max(0.0) as u64)),
            Self::Hidden => bytes(value.max(0.0) as u64),
        }
    }

    /// Returns the quantity's name in messages, such as `device memory in use`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DevicePercent => "device memory in use",
            Self::ExternalFragmentationPercent => "fragmented device memory",
            Self::GrowthPerMinute => "growth of allocated memory",
            Self::Hidden => "device memory outside the pool",
        }
    }
}

/// An alert: a threshold was crossed.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// The time of the sample, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The threshold that was crossed.
    pub threshold: Threshold,
    /// The value, in the quantity's unit.
    pub value: f64,
    /// The sample with the value.
    pub sample: Sample,
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Threshold { quantity, severity, above, .. } = self.threshold;
        let (value, above) = (quantity.in_words(self.value), quantity.in_words(above));
        write!(f, "{severity}: {} reached {value}; the threshold is {above}", quantity.name())
    }
}

/// When the alert of a value is raised, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlertLimits {
    /// The value from which the alert is raised.
    pub above: f64,
    /// The value at which the alert ends; at most `above`.
    pub until: f64,
    /// Minimum time between two alerts.
    pub min_interval: Duration,
}

impl AlertLimits {
    /// Creates limits with an alert that is raised at `above` and ends at nine tenths of it, at most every ten seconds.
    pub fn new(above: f64) -> Self {
        Self { above, until: above * 0.9, min_interval: Duration::from_secs(10) }
    }
}

/// The change of an alert with a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertChange {
    /// The value reached the limit.
    Raised,
    /// The value fell to the end of the alert.
    Cleared,
}

/// Whether an alert is raised. Each crossing raises one alert, however many samples lie above the limit.
#[derive(Debug, Clone, Default)]
pub struct AlertState {
    raised: bool,
    last: Option<Duration>,
}

impl AlertState {
    /// Applies a new value at the time `at`, counted from any fixed moment, and returns whether it raised or cleared the alert.
    pub fn update(&mut self, limits: &AlertLimits, value: f64, at: Duration) -> Option<AlertChange> {
        let AlertLimits { above, until, min_interval } = *limits;
        if self.raised {
            // `above` and `until` may be equal.
            self.raised = value > until || value >= above;
            return (!self.raised).then_some(AlertChange::Cleared);
        }
        let waited = self.last.is_none_or(|last| at.saturating_sub(last) >= min_interval);
        if value.is_nan() || value < above || !waited {
            return None;
        }
        (self.raised, self.last) = (true, Some(at));
        Some(AlertChange::Raised)
    }
}

/// A threshold and its alert.
#[derive(Debug, Clone)]
pub(super) struct WatchedThreshold {
    pub(super) threshold: Threshold,
    /// Whether a value was ever known.
    pub(super) measured: bool,
    alert: AlertState,
}

impl WatchedThreshold {
    pub(super) fn new(threshold: Threshold) -> Self {
        Self { threshold, measured: false, alert: AlertState::default() }
    }

    /// Applies a new value at the time `at` since the tracker's start, and returns whether it raised or cleared the alert.
    pub(super) fn update(&mut self, value: f64, at: Duration) -> Option<AlertChange> {
        let Threshold { above, until, min_interval, .. } = self.threshold;
        self.measured = true;
        self.alert.update(&AlertLimits { above, until, min_interval }, value, at)
    }
}

/// Measures the growth of retained bytes: the lowest allocated bytes in each third of a window, compared with those in the third before,
/// and the smaller of the two steps. So neither temporary allocations nor one-time allocations count.
#[derive(Debug)]
pub struct GrowthRate {
    window: Duration,
    /// The lowest allocated bytes of each interval, with the interval's start.
    seen: VecDeque<(Duration, u64)>,
}

/// Maximum number of values in a window. Beyond it, several samples are combined into the lowest value.
const MOST_LOOKS: u32 = 1024;

impl GrowthRate {
    /// Measures over `window`.
    pub fn new(window: Duration) -> Self {
        Self { window, seen: VecDeque::new() }
    }

    /// Adds the allocated bytes at the time `at`, counted from any fixed moment. Returns the growth in bytes per minute, once a whole window
    /// has passed.
    pub fn update(&mut self, at: Duration, allocated: u64) -> Option<f64> {
        let apart = self.window / MOST_LOOKS;
        match self.seen.back_mut() {
            Some((last, lowest)) if at.saturating_sub(*last) < apart => *lowest = allocated.min(*lowest),
            _ => self.seen.push_back((at, allocated)),
        }
        let start = at.checked_sub(self.window)?;
        // One value from before the window stays, because samples do not fall exactly on the window's start.
        while self.seen.get(1).is_some_and(|&(seen, _)| seen <= start) {
            self.seen.pop_front();
        }
        if self.seen.front().is_none_or(|&(seen, _)| seen > start) {
            return None;
        }
        let third = self.window.as_secs_f64() / 3.0;
        let mut lowest = [None::<u64>; 3];
        for &(seen, bytes) in &self.seen {
            let part = (seen.saturating_sub(start).as_secs_f64() / third) as usize;
            let lowest = &mut lowest[part.min(2)];
            *lowest = Some(lowest.map_or(bytes, |lowest| lowest.min(bytes)));
        }
        let [Some(first), Some(second), Some(last)] = lowest.map(|bytes| bytes.map(|bytes| bytes as f64))
        else {
            return None;
        };
        Some((second - first).min(last - second) / third * 60.0)
    }
}

#[cfg(test)]
mod tests;
