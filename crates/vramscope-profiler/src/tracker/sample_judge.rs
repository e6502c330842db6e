//! Compares each sample of a tracker with its thresholds, and records the resulting events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::events::EventKind;
use super::thresholds::{Alert, AlertChange, AlertQuantity, GrowthRate, WatchedThreshold};
use super::{TrackerEvent, TrackerOptions, TrackerShared, Watchdog};
use crate::monitor::Sample;
use crate::snapshot::now_us;
use crate::source::{Counts, MemorySource, Reading, SourceError};
use vramscope_basics::lock;

/// Minimum time between two measurements of fragmentation, which visit every free block.
const BETWEEN_WALKS: Duration = Duration::from_secs(1);

/// The state of the tracker's thread.
pub(super) struct SampleJudge {
    shared: Arc<TrackerShared>,
    thresholds: Vec<WatchedThreshold>,
    /// The number of changes of the shared thresholds that are included in `thresholds`.
    changes: u64,
    growth: GrowthRate,
    /// The watchdog, and the time since `start` at which it last released memory.
    watchdog: Option<(Watchdog, Option<Duration>)>,
    interval: Duration,
    /// The source's counts in the previous sample.
    counts: Option<Counts>,
    /// Whether the last reading of the source failed.
    failing: bool,
    /// When the tracker started. Times are relative to it, because the system clock may be set.
    start: Instant,
    /// The time since `start` at which fragmentation was last measured.
    walked: Option<Duration>,
}

impl SampleJudge {
    pub(super) fn new(shared: Arc<TrackerShared>, options: &TrackerOptions) -> Self {
        Self {
            shared,
            thresholds: options.thresholds.iter().copied().map(WatchedThreshold::new).collect(),
            changes: 0,
            growth: GrowthRate::new(options.growth_window.max(options.interval.saturating_mul(10))),
            watchdog: options.watchdog.map(|watchdog| (watchdog, None)),
            interval: options.interval,
            counts: None,
            failing: false,
            start: Instant::now(),
            walked: None,
        }
    }

    /// Records a sample with the resulting events, and calls the alert callbacks.
    pub(super) fn handle(&mut self, sample: Result<Sample, SourceError>) {
        let phases = lock(&self.shared.phases).open();
        let changed = self.take_thresholds();
        let events = match &sample {
            Ok(sample) => self.judge(sample),
            Err(e @ SourceError::Gone(_)) => vec![EventKind::Gone(e.to_string())],
            Err(e) if !self.failing => vec![EventKind::Error(e.to_string())],
            Err(_) => Vec::new(),
        };
        self.failing = sample.is_err();
        let time_us = sample.as_ref().map_or_else(|_| now_us(), |sample| sample.time_us);
        {
            let mut state = lock(&self.shared.state);
            match sample {
                Ok(sample) => state.record_sample(sample, phases, self.shared.max_samples),
                Err(_) => state.statistics.errors += 1,
            }
            for kind in events {
                state.record_event(TrackerEvent { time_us, kind }, self.shared.max_events);
            }
            // The list is rebuilt only if it changed, which is rare.
            let never = self.thresholds.iter().filter(|watched| !watched.measured);
            if changed || never.clone().count() != state.never_measured.len() {
                state.never_measured = never.map(|watched| watched.threshold).collect();
            }
            state.write_waiting();
        }
        self.shared.call_alert_callbacks();
    }

    /// Applies threshold changes since the last sample, and returns whether there were any. An unchanged threshold keeps its state.
    fn take_thresholds(&mut self) -> bool {
        let thresholds = lock(&self.shared.thresholds);
        let changed = std::mem::replace(&mut self.changes, thresholds.changes) != thresholds.changes;
        if changed {
            let mut before = std::mem::take(&mut self.thresholds);
            let keep_or_begin = |&threshold| {
                let same = before.iter().position(|watched| watched.threshold == threshold);
                same.map_or_else(|| WatchedThreshold::new(threshold), |i| before.swap_remove(i))
            };
            self.thresholds = thresholds.now.iter().map(keep_or_begin).collect();
        }
        changed
    }

    /// Returns the events that result from a sample.
    fn judge(&mut self, sample: &Sample) -> Vec<EventKind> {
        let mut events = Vec::new();
        if let (Some(now), Some(before)) = (sample.tick.now.counts, self.counts) {
            let more = |of: fn(&Counts) -> u64| Some(of(&now).saturating_sub(of(&before))).filter(|&n| n > 0);
            events.extend(more(|c| c.num_alloc_retries).map(EventKind::Retry));
            events.extend(more(|c| c.num_ooms).map(EventKind::OutOfMemory));
        }
        self.counts = sample.tick.now.counts;
        let at = self.start.elapsed();
        let growth = sample.tick.now.allocated.and_then(|bytes| self.growth.update(at, bytes));
        // Fragmentation is measured only if a threshold needs it, and at most once a second.
        let wanted = |watched: &WatchedThreshold| {
            watched.threshold.quantity == AlertQuantity::ExternalFragmentationPercent
        };
        let is_time = self.interval >= BETWEEN_WALKS
            || self.walked.is_none_or(|walked| at.saturating_sub(walked) >= BETWEEN_WALKS);
        let lost = if is_time && self.thresholds.iter().any(wanted) {
            self.walked = Some(at);
            lost_between_blocks(self.shared.source.as_ref(), &sample.tick.now)
        } else {
            None
        };
        for watched in &mut self.thresholds {
            let value = match watched.threshold.quantity {
                AlertQuantity::DevicePercent => percent_in_use(sample),
                AlertQuantity::ExternalFragmentationPercent => {
                    lost.zip(sample.tick.now.device_total).and_then(|(part, whole)| percent(part, whole))
                }
                AlertQuantity::GrowthPerMinute => growth,
                AlertQuantity::Hidden => sample.tick.now.hidden().map(|bytes| bytes as f64),
            };
            let Some(value) = value else { continue };
            let Some(change) = watched.update(value, at) else { continue };
            let alert =
                Alert { time_us: sample.time_us, threshold: watched.threshold, value, sample: *sample };
            events.push(match change {
                AlertChange::Raised => EventKind::Alert(alert),
                AlertChange::Cleared => EventKind::Cleared(alert),
            });
        }
        events.extend(self.clean_up(sample, at));
        events
    }

    /// Runs the watchdog if the device is full enough and enough time has passed since the last cleanup.
    fn clean_up(&mut self, sample: &Sample, at: Duration) -> Option<EventKind> {
        let (watchdog, last) = self.watchdog.as_mut()?;
        if percent_in_use(sample)? < watchdog.above_percent {
            return None;
        }
        if last.is_some_and(|last| at.saturating_sub(last) < watchdog.min_interval) {
            return None;
        }
        let source = &self.shared.source;
        let before = source.read().ok()?;
        if releasable(source.as_ref(), &before)? == 0 {
            return None;
        }
        *last = Some(at);
        match source.free_cache().and_then(|()| source.read()) {
            Ok(after) => Some(EventKind::Cleanup { before: before.reserved?, after: after.reserved? }),
            Err(e) => Some(EventKind::Error(e.to_string())),
        }
    }
}

/// Returns the bytes that emptying the cache would release. If the source does not know, all cached bytes except those in split segments.
fn releasable(source: &dyn MemorySource, now: &Reading) -> Option<u64> {
    let split = || Some(now.inactive()?.saturating_sub(source.inactive_split_bytes().unwrap_or(0)));
    source.releasable_bytes().or_else(split)
}

/// Returns the cached bytes that emptying the cache would not release, if the source knows.
fn lost_between_blocks(source: &dyn MemorySource, now: &Reading) -> Option<u64> {
    let cached = |releasable| Some(now.inactive()?.saturating_sub(releasable));
    source.releasable_bytes().and_then(cached).or_else(|| source.inactive_split_bytes())
}

/// Returns the highest percentage of used device memory since the previous sample. It includes at least the pool's reserved bytes.
fn percent_in_use(sample: &Sample) -> Option<f64> {
    let Reading { device_used, reserved, .. } = sample.tick.high;
    percent(device_used.max(reserved)?, sample.tick.now.device_total?)
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}
