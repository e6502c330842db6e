//! When to raise an alarm, and when not to raise it again.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use vramscope_basics::units::bytes;

use crate::monitor::Sample;

/// A value that is watched: an alert is raised where it reaches `above`, once, and again only after it has fallen
/// to `until`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// What is watched.
    pub quantity: Quantity,
    /// How bad it is.
    pub severity: Severity,
    /// An alert is raised at this value, in the quantity's unit.
    pub above: f64,
    /// It is over at this value, which is not above the other one.
    pub until: f64,
    /// The least time between two alerts of this threshold. One that comes earlier is raised when the time has
    /// passed, if there is still reason to.
    pub min_interval: Duration,
}

/// What can be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The most of the device in use since the sample before, by anyone, in percent of it.
    DevicePercent,
    /// What is free between blocks in use, in percent of the device: emptying the cache would not give it back. Cache that
    /// can be given back is no fragmentation. It is looked at no more than once a second.
    ExternalFragmentationPercent,
    /// How fast allocated bytes grow, in bytes a minute: from the least there was in the first half of the
    /// [window](super::TrackerOptions::growth_window) to the least in the second, so that what comes and goes with
    /// every step does not count.
    GrowthPerMinute,
    /// In use on the device and not reserved by the pool, in bytes: contexts, libraries' workspaces, other processes.
    Hidden,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth looking at.
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
    /// Raised at `above`; over at nine tenths of it, no more often than every ten seconds.
    pub fn new(quantity: Quantity, severity: Severity, above: f64) -> Self {
        Self { quantity, severity, above, until: above * 0.9, min_interval: Duration::from_secs(10) }
    }

    pub(super) fn is_sensible(&self) -> bool {
        let most = match self.quantity {
            // What is in use, or lost, is a part of the device.
            Quantity::DevicePercent | Quantity::ExternalFragmentationPercent => 100.0,
            Quantity::GrowthPerMinute | Quantity::Hidden => f64::MAX,
        };
        self.until.is_finite() && self.until <= self.above && self.above <= most
    }

    pub(super) fn is_of(&self, quantity: Quantity, severity: Severity) -> bool {
        self.quantity == quantity && self.severity == severity
    }
}

impl Quantity {
    /// A value of it, for people.
    fn in_words(self, value: f64) -> String {
        match self {
            Self::DevicePercent | Self::ExternalFragmentationPercent => format!("{value:.1} %"),
            Self::GrowthPerMinute => format!("{} a minute", bytes(value.max(0.0) as u64)),
            Self::Hidden => bytes(value.max(0.0) as u64),
        }
    }

    /// Its name for people: `device memory in use`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DevicePercent => "device memory in use",
            Self::ExternalFragmentationPercent => "free between blocks, of the device",
            Self::GrowthPerMinute => "growth of allocated memory",
            Self::Hidden => "device memory outside of the pool",
        }
    }
}

/// A threshold was crossed.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// When, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The threshold.
    pub threshold: Threshold,
    /// The value that crossed it.
    pub value: f64,
    /// What was seen.
    pub sample: Sample,
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Threshold { quantity, severity, above, .. } = self.threshold;
        let (value, above) = (quantity.in_words(self.value), quantity.in_words(above));
        write!(f, "{severity}: {} reached {value}; the threshold is {above}", quantity.name())
    }
}

/// What became of a threshold with a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Raised,
    Cleared,
}

/// A threshold, and whether its alert is raised.
#[derive(Debug, Clone)]
pub(super) struct Gauge {
    pub(super) threshold: Threshold,
    /// A value was known, once.
    pub(super) measured: bool,
    raised: bool,
    last: Option<Duration>,
}

impl Gauge {
    pub(super) fn new(threshold: Threshold) -> Self {
        Self { threshold, measured: false, raised: false, last: None }
    }

    /// `at` is the time since some beginning.
    pub(super) fn see(&mut self, value: f64, at: Duration) -> Option<Change> {
        let Threshold { above, until, min_interval, .. } = self.threshold;
        self.measured = true;
        if self.raised {
            // The marks may be the same.
            self.raised = value > until || value >= above;
            return (!self.raised).then_some(Change::Cleared);
        }
        let waited = self.last.is_none_or(|last| at.saturating_sub(last) >= min_interval);
        if value.is_nan() || value < above || !waited {
            return None;
        }
        (self.raised, self.last) = (true, Some(at));
        Some(Change::Raised)
    }
}

/// How fast the least that is allocated grows.
#[derive(Debug)]
pub(super) struct Growth {
    window: Duration,
    /// The least allocated, by the time since some beginning.
    seen: VecDeque<(Duration, u64)>,
}

/// Looks that a window holds; where there would be more, they are further apart.
const MOST_LOOKS: u32 = 1024;

impl Growth {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, seen: VecDeque::new() }
    }

    /// Bytes a minute, once most of a window was seen.
    pub(super) fn see(&mut self, at: Duration, allocated: u64) -> Option<f64> {
        let apart = self.window / MOST_LOOKS;
        match self.seen.back_mut() {
            Some((last, lowest)) if at.saturating_sub(*last) < apart => *lowest = allocated.min(*lowest),
            _ => self.seen.push_back((at, allocated)),
        }
        while self.seen.front().is_some_and(|&(seen, _)| at.saturating_sub(seen) > self.window) {
            self.seen.pop_front();
        }
        let &(first, _) = self.seen.front()?;
        let span = at.saturating_sub(first);
        // Nine tenths, for ticks do not fall on the window's edges.
        if span < self.window / 10 * 9 {
            return None;
        }
        let middle = first + span / 2;
        let least = |half: bool| {
            self.seen.iter().filter(|(seen, _)| (*seen > middle) == half).map(|&(_, bytes)| bytes).min()
        };
        let (before, after) = (least(false)?, least(true)?);
        Some((after as f64 - before as f64) / (span.as_secs_f64() / 2.0) * 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(above: f64, until: f64, seconds: u64) -> Gauge {
        let threshold = Threshold {
            until,
            min_interval: Duration::from_secs(seconds),
            ..Threshold::new(Quantity::DevicePercent, Severity::Warning, above)
        };
        Gauge::new(threshold)
    }

    /// The changes over values that come a second apart.
    fn changes(gauge: &mut Gauge, values: &[f64]) -> Vec<(usize, Change)> {
        let seen = values.iter().enumerate();
        seen.filter_map(|(i, &v)| gauge.see(v, Duration::from_secs(i as u64)).map(|c| (i, c))).collect()
    }

    #[test]
    fn one_crossing_is_one_alert_however_long_it_lasts() {
        let values = [10.0, 81.0, 82.0, 79.0, 81.0, 95.0, 73.0, 81.0, 70.0, 60.0, 81.0];
        assert_eq!(
            changes(&mut gauge(80.0, 72.0, 0), &values),
            [(1, Change::Raised), (8, Change::Cleared), (10, Change::Raised)]
        );
    }

    #[test]
    fn an_alert_too_soon_after_the_last_waits_until_there_is_reason_still() {
        let values = [81.0, 70.0, 81.0, 70.0, 70.0, 81.0, 81.0];
        assert_eq!(
            changes(&mut gauge(80.0, 72.0, 6), &values),
            [(0, Change::Raised), (1, Change::Cleared), (6, Change::Raised)]
        );
    }

    #[test]
    fn without_hysteresis_a_value_at_the_threshold_alerts_once() {
        assert_eq!(changes(&mut gauge(80.0, 80.0, 0), &[80.0, 81.0, 80.0, 80.5]), [(0, Change::Raised)]);
        assert_eq!(changes(&mut gauge(80.0, 72.0, 0), &[f64::NAN, f64::NAN]), []);
    }

    #[test]
    fn growth_is_of_what_stays() {
        let minute = |of: &dyn Fn(u64) -> u64| {
            let mut growth = Growth::new(Duration::from_secs(60));
            (0..=600).filter_map(|i| growth.see(Duration::from_millis(i * 100), of(i))).last()
        };
        let mib = 1u64 << 20;
        // Steps of a second that use up to 100 MiB and leave nothing.
        assert_eq!(minute(&|i| 500 * mib + i % 10 * 10 * mib), Some(0.0));
        // The same, leaving one MiB each.
        let left = minute(&|i| 500 * mib + i % 10 * 10 * mib + i / 10 * mib).unwrap();
        assert!((55.0..65.0).contains(&(left / mib as f64)), "{left}");
        // Half a window is not enough.
        let mut growth = Growth::new(Duration::from_secs(60));
        assert_eq!((0..300).filter_map(|i| growth.see(Duration::from_millis(i * 100), 0)).count(), 0);
    }

    #[test]
    fn a_window_holds_few_looks() {
        let mut growth = Growth::new(Duration::from_secs(60));
        for i in 0..600_000 {
            growth.see(Duration::from_micros(i * 100), 0);
        }
        assert!(growth.seen.len() <= MOST_LOOKS as usize + 2, "{}", growth.seen.len());
    }
}
