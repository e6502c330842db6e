//! Device memory in use that the pool did not reserve, classified by its change over time.

use serde::Serialize;

use crate::monitor::Sample;
use crate::source::Reading;

/// Device memory in use outside the pool over several samples, classified (gpumemprof's gap analysis).
///
/// ```
/// use vramscope_profiler::{HiddenKind, HiddenMemory, HiddenOptions, Reading, Sample, Tick};
///
/// // A context of 500 MB, and a library that takes 10 MB more each second, on a device of 8 GB.
/// let sample = |second: i64| {
///     let hidden = 500_000_000 + second as u64 * 10_000_000;
///     let (reserved, total) = (Some(1_000_000_000), Some(8_000_000_000));
///     let device_used = Some(1_000_000_000 + hidden);
///     let now = Reading { allocated: reserved, reserved, device_used, device_total: total, ..Reading::default() };
///     Sample { time_us: second * 1_000_000, tick: Tick { now, high: now, high_is_exact: false }, missed: 0 }
/// };
/// let samples: Vec<Sample> = (0..10).map(sample).collect();
/// let hidden = HiddenMemory::of(&samples, HiddenOptions::default());
/// assert_eq!((hidden.constant_bytes, hidden.highest_bytes), (500_000_000, 590_000_000));
/// let [drift, constant] = &hidden.findings[..] else { panic!("{hidden:?}") };
/// assert!(matches!(drift.kind, HiddenKind::Drift { bytes_per_second, .. } if bytes_per_second.round() == 1e7));
/// assert_eq!(constant.kind, HiddenKind::Constant);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HiddenMemory {
    /// Number of used samples. A sample is used if it has reserved bytes, device used bytes and the device's size.
    pub samples: usize,
    /// Lowest hidden memory in bytes: the part that was always present.
    pub constant_bytes: u64,
    /// Highest hidden memory in bytes.
    pub highest_bytes: u64,
    /// The findings, the most severe first. Empty for fewer than three samples, or if no sample reaches
    /// [`least_ratio`](HiddenOptions::least_ratio) of the device.
    pub findings: Vec<HiddenFinding>,
}

/// The thresholds for reporting hidden memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HiddenOptions {
    /// The minimum fraction of the device that is hidden in at least one sample, from 0 to 1, to report anything.
    pub least_ratio: f64,
    /// A sample is a spike from this many standard deviations above the mean.
    pub spike_deviations: f64,
    /// The minimum R squared, from 0 to 1, of a rising line through all samples to count as a drift.
    pub drift_r_squared: f64,
    /// The minimum average fraction of reserved memory that is not allocated, from 0 to 1, to report fragmentation.
    pub fragmentation_ratio: f64,
}

impl Default for HiddenOptions {
    /// As in gpumemprof: 5 % of the device, two deviations, 0.6, 30 %.
    fn default() -> Self {
        Self { least_ratio: 0.05, spike_deviations: 2.0, drift_r_squared: 0.6, fragmentation_ratio: 0.3 }
    }
}

/// A finding about hidden memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HiddenFinding {
    /// The kind and its measures.
    #[serde(flatten)]
    pub kind: HiddenKind,
    /// The severity.
    pub severity: HiddenSeverity,
    /// The confidence from 0 to 1, by gpumemprof's formulas.
    pub confidence: f64,
}

/// The kinds of hidden memory, with their measures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "classification")]
pub enum HiddenKind {
    /// Always present: contexts, libraries' workspaces, other processes.
    Constant,
    /// Rises steadily (`persistent_drift`): something outside the pool leaks, or other processes grow.
    #[serde(rename = "persistent_drift")]
    Drift {
        /// Slope of the best-fitting line.
        bytes_per_second: f64,
        /// R squared of the line, from 0 to 1, where 1 is an exact fit.
        r_squared: f64,
    },
    /// Temporary (`transient_spike`): a workspace that is allocated for one call.
    #[serde(rename = "transient_spike")]
    Spike {
        /// Number of samples above the threshold.
        samples: usize,
        /// Distance of the highest sample from the mean, in standard deviations.
        deviations: f64,
        /// Time of the highest sample, in microseconds since the Unix epoch.
        time_us: i64,
    },
    /// The pool reserves much unused memory (`fragmentation_like`). It is not hidden, but it makes the device look full. Most of it is
    /// usually cache that `free_cache` releases.
    #[serde(rename = "fragmentation_like")]
    Fragmentation {
        /// Average fraction of reserved memory that was not allocated.
        average_ratio: f64,
        /// Highest fraction of reserved memory that was not allocated.
        highest_ratio: f64,
    },
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenSeverity {
    /// No action needed.
    Info,
    /// Worth checking.
    Warning,
    /// The program may soon fail.
    Critical,
}

/// Values computed from one sample.
#[derive(Clone, Copy)]
struct HiddenSample {
    time_us: i64,
    /// Device bytes in use that the pool did not reserve.
    hidden: u64,
    /// `hidden` as a fraction of the device.
    ratio: f64,
    /// The fraction of reserved memory that is not allocated.
    unused: Option<f64>,
}

impl HiddenSample {
    fn of(sample: &Sample) -> Option<Self> {
        let now = &sample.tick.now;
        let total = now.device_total.filter(|&total| total > 0)?;
        let hidden = now.hidden()?;
        let unused = |now: &Reading| {
            let (reserved, allocated) = (now.reserved.filter(|&r| r > 0)?, now.allocated?);
            Some(reserved.saturating_sub(allocated) as f64 / reserved as f64)
        };
        Some(Self {
            time_us: sample.time_us,
            hidden,
            ratio: hidden as f64 / total as f64,
            unused: unused(now),
        })
    }
}

impl HiddenMemory {
    /// Classifies the hidden memory of samples in time order, as returned by [`MemoryTracker::samples`](crate::MemoryTracker::samples).
    pub fn of(samples: &[Sample], options: HiddenOptions) -> Self {
        let samples: Vec<HiddenSample> = samples.iter().filter_map(HiddenSample::of).collect();
        let constant_bytes = samples.iter().map(|s| s.hidden).min().unwrap_or(0);
        let highest_bytes = samples.iter().map(|s| s.hidden).max().unwrap_or(0);
        let is_enough = samples.len() >= 3 && samples.iter().any(|s| s.ratio >= options.least_ratio);
        let mut findings = Vec::new();
        if is_enough {
            findings.extend(spike(&samples, options.spike_deviations));
            findings.extend(drift(&samples, options.drift_r_squared));
            findings.extend(fragmentation(&samples, options.fragmentation_ratio));
            findings.extend(constant(&samples, options.least_ratio));
            findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.confidence.total_cmp(&a.confidence)));
        }
        Self { samples: samples.len(), constant_bytes, highest_bytes, findings }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    if n > 0.0 { sum / n } else { 0.0 }
}

fn severity(is_critical: bool) -> HiddenSeverity {
    if is_critical { HiddenSeverity::Critical } else { HiddenSeverity::Warning }
}

fn constant(samples: &[HiddenSample], least_ratio: f64) -> Option<HiddenFinding> {
    let always = samples.iter().all(|s| s.ratio >= least_ratio);
    always.then_some(HiddenFinding {
        kind: HiddenKind::Constant,
        severity: HiddenSeverity::Info,
        confidence: 1.0,
    })
}

/// Finds a spike: samples more than `least` standard deviations (with n - 1) above the mean.
fn spike(samples: &[HiddenSample], least: f64) -> Option<HiddenFinding> {
    let average = mean(samples.iter().map(|s| s.hidden as f64));
    let squares: f64 = samples.iter().map(|s| (s.hidden as f64 - average).powi(2)).sum();
    let deviation = (squares / (samples.len() as f64 - 1.0)).sqrt();
    let above = |s: &HiddenSample| (s.hidden as f64 - average) / deviation;
    let spikes = samples.iter().filter(|s| deviation > 0.0 && above(s) > least).count();
    // Search from the end, so that the first of several equally high samples is taken.
    let highest = samples.iter().rev().max_by_key(|s| s.hidden).filter(|_| spikes > 0)?;
    let deviations = above(highest);
    Some(HiddenFinding {
        kind: HiddenKind::Spike { samples: spikes, deviations, time_us: highest.time_us },
        severity: severity(deviations > 2.0 * least),
        confidence: (deviations / (3.0 * least)).clamp(0.0, 1.0),
    })
}

/// Finds a drift: the least-squares line rises and fits well.
fn drift(samples: &[HiddenSample], least: f64) -> Option<HiddenFinding> {
    let first = samples.first().filter(|_| samples.len() >= 5)?.time_us;
    let time = |s: &HiddenSample| s.time_us.saturating_sub(first) as f64 / 1e6;
    let (middle, average) = (mean(samples.iter().map(time)), mean(samples.iter().map(|s| s.hidden as f64)));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for s in samples {
        let (x, y) = (time(s) - middle, s.hidden as f64 - average);
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    // Samples with the same time or the same value have no rising line.
    if xx <= 0.0 || yy <= 0.0 || xy <= 0.0 {
        return None;
    }
    let (bytes_per_second, r_squared) = (xy / xx, xy * xy / (xx * yy));
    (r_squared >= least).then(|| HiddenFinding {
        kind: HiddenKind::Drift { bytes_per_second, r_squared },
        severity: severity(r_squared > 0.85),
        confidence: r_squared.min(1.0),
    })
}

fn fragmentation(samples: &[HiddenSample], least: f64) -> Option<HiddenFinding> {
    let ratios = || samples.iter().filter_map(|s| s.unused);
    let highest_ratio = ratios().max_by(f64::total_cmp)?;
    let average_ratio = mean(ratios());
    (average_ratio >= least).then(|| HiddenFinding {
        kind: HiddenKind::Fragmentation { average_ratio, highest_ratio },
        severity: severity(average_ratio > 0.5),
        confidence: (average_ratio / 0.6).min(1.0),
    })
}

#[cfg(test)]
mod tests;
