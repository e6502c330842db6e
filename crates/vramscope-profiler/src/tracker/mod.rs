//! [`MemoryTracker`]: tracks a source continuously, with an event log, alerts and a watchdog.

mod error;
mod events;
mod log;
mod options;
mod phase_scope;
mod phases;
mod sample_judge;
mod shared;
mod thresholds;
mod timeline;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use error::TrackerError;
pub use events::{EventKind, LogFormat, TrackerEvent};
pub use log::LogFile;
pub use options::{TrackerOptions, TrackerStatistics, Watchdog};
pub use phase_scope::{PhaseScope, PhasedSample};
pub use phases::PhaseGuard;
pub use thresholds::{
    Alert, AlertChange, AlertLimits, AlertQuantity, AlertState, GrowthRate, Severity, Threshold,
};
pub use timeline::TimelinePoint;

use crate::hidden::{HiddenMemory, HiddenOptions};
use crate::monitor::{Monitor, MonitorError, Sample, check};
use crate::source::MemorySource;
use events::write_log;
use log::OpenLog;
use sample_judge::SampleJudge;
use shared::{RegisteredCallback, Thresholds, TrackerShared, TrackerState};
use vramscope_basics::lock;

/// Called when an alert is raised, on the tracker's thread. It should return quickly, because no sample is taken in the meantime. A
/// callback that owns the tracker keeps it alive forever.
pub type AlertCallback = Arc<dyn Fn(&Alert) + Send + Sync>;

/// Tracks a source, raises alerts, and keeps a log: gpumemprof's `MemoryTracker`.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::{AlertQuantity, MemoryTracker, PoolSource, Severity, Threshold, TrackerOptions};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 100 << 20)?;
/// let nearly_full = Threshold::new(AlertQuantity::DevicePercent, Severity::Critical, 90.0);
/// let options = TrackerOptions { thresholds: vec![nearly_full], ..TrackerOptions::default() };
/// let tracker = MemoryTracker::start(PoolSource::new(&pool, 0)?, options)?;
/// let block = pool.malloc(95 << 20)?;
/// tracker.stop();
/// let alerts = tracker.alerts();
/// assert_eq!(alerts.len(), 1);
/// assert_eq!(alerts[0].to_string(), "critical: device memory in use reached 95.0 %; the threshold is 90.0 %");
/// # drop(block);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Differences from gpumemprof
/// - Crossing a threshold raises one alert. It is raised again only after the value has fallen to the threshold's lower mark. gpumemprof
///   raises an alert with every sample.
/// - On a pool, each sample has the exact peaks since the previous one, and these raise alerts. Allocations are counted, not guessed from
///   rising samples.
/// - Growth counts only bytes that stay allocated, without those from the start. Fragmentation is cache that emptying would not release.
///   Memory outside the pool is what the driver reports.
/// - Events and samples have separate limits, so samples do not displace events.
/// - It tracks any source, including one of another process.
pub struct MemoryTracker {
    shared: Arc<TrackerShared>,
    monitor: Mutex<Option<Monitor>>,
}

impl MemoryTracker {
    /// Starts tracking `source`, and takes a first sample.
    ///
    /// # Errors
    /// See [`TrackerError`].
    pub fn start(source: Arc<dyn MemorySource>, options: TrackerOptions) -> Result<Self, TrackerError> {
        if let Some(senseless) = options.thresholds.iter().find(|t| !t.is_sensible()) {
            return Err(TrackerError::Threshold(*senseless));
        }
        for (bound, name) in [(options.max_events, "max_events"), (options.max_samples, "max_samples")] {
            if bound == 0 {
                return Err(TrackerError::NothingKept(name));
            }
        }
        if let Some(watchdog) = options.watchdog.filter(|w| !(0.0..=100.0).contains(&w.above_percent)) {
            return Err(TrackerError::Watchdog(watchdog.above_percent));
        }
        check(options.interval)?;
        let log = options.log.as_ref().map(OpenLog::create).transpose()?;
        let statistics = TrackerStatistics { high_is_exact: true, ..TrackerStatistics::default() };
        let state = TrackerState {
            alerts: VecDeque::new(),
            never_measured: options.thresholds.clone(),
            events: VecDeque::new(),
            samples: VecDeque::new(),
            statistics,
            raised: 0,
            log,
        };
        let shared = Arc::new(TrackerShared {
            source: Arc::clone(&source),
            state: Mutex::new(state),
            callbacks: Mutex::default(),
            phases: Mutex::default(),
            thresholds: Mutex::new(Thresholds { now: options.thresholds.clone(), changes: 0 }),
            max_events: options.max_events,
            max_samples: options.max_samples,
        });
        shared.record_event(EventKind::Start(source.info().name.clone()));
        let mut sample_judge = SampleJudge::new(Arc::clone(&shared), &options);
        let monitor = Monitor::start(source, options.interval, move |sample| sample_judge.handle(sample))?;
        Ok(Self { shared, monitor: Mutex::new(Some(monitor)) })
    }

    /// Takes a last sample and stops tracking. Events and samples are kept.
    pub fn stop(&self) {
        let monitor = lock(&self.monitor).take();
        self.end(monitor);
    }

    /// Stops the monitor, if there still is one, and records the end of tracking.
    fn end(&self, monitor: Option<Monitor>) {
        let Some(monitor) = monitor else { return };
        let is_here = monitor.is_of_this_process();
        monitor.stop();
        // In a forked process nothing has stopped, and the log belongs to the parent.
        if is_here {
            self.shared.record_event(EventKind::Stop);
        }
    }

    /// Whether tracking was not stopped and the source still exists.
    pub fn is_running(&self) -> bool {
        lock(&self.monitor).as_ref().is_some_and(Monitor::is_running)
    }

    /// Calls `callback` once for every alert. Kept alerts from before are passed to it now, on this thread. A panic in it is counted and
    /// not passed on.
    pub fn add_alert_callback(&self, callback: AlertCallback) {
        lock(&self.shared.callbacks).push(RegisteredCallback { callback, alerts: 0 });
        self.shared.call_alert_callbacks();
    }

    /// Removes `callback`, which must be a clone of the added `Arc`. Returns false if it was not added. It may still be called for an alert
    /// that is being raised at this moment.
    pub fn remove_alert_callback(&self, callback: &AlertCallback) -> bool {
        let mut callbacks = lock(&self.shared.callbacks);
        let is_it = |told: &RegisteredCallback| {
            Arc::as_ptr(&told.callback).cast::<()>() == Arc::as_ptr(callback).cast()
        };
        let removed = callbacks.iter().position(is_it).map(|i| callbacks.remove(i));
        drop(callbacks);
        // Without a lock, because dropping it may run code of the program.
        removed.is_some()
    }

    /// Sets a threshold from the next sample on, replacing one of the same quantity and severity. If its value has already been reached, an
    /// alert is raised.
    ///
    /// # Errors
    /// [`TrackerError::Threshold`] if it could never be crossed, or its alert could never end.
    pub fn set_threshold(&self, threshold: Threshold) -> Result<(), TrackerError> {
        if !threshold.is_sensible() {
            return Err(TrackerError::Threshold(threshold));
        }
        let mut thresholds = lock(&self.shared.thresholds);
        match thresholds.now.iter_mut().find(|old| old.is_of(threshold.quantity, threshold.severity)) {
            Some(old) => *old = threshold,
            None => thresholds.now.push(threshold),
        }
        thresholds.changes += 1;
        Ok(())
    }

    /// Removes a threshold from the next sample on. Returns false if there is none of this quantity and severity.
    pub fn remove_threshold(&self, quantity: AlertQuantity, severity: Severity) -> bool {
        let mut thresholds = lock(&self.shared.thresholds);
        let before = thresholds.now.len();
        thresholds.now.retain(|threshold| !threshold.is_of(quantity, severity));
        let removed = thresholds.now.len() < before;
        thresholds.changes += u64::from(removed);
        removed
    }

    /// Returns the thresholds that apply from the next sample on.
    pub fn thresholds(&self) -> Vec<Threshold> {
        lock(&self.shared.thresholds).now.clone()
    }

    /// Starts a phase of the calling thread, which ends when the guard is dropped. The log records its start and its end, and samples in
    /// between contain the phase. Phases nest on each thread.
    pub fn phase(&self, name: &str) -> PhaseGuard<'_> {
        PhaseGuard::enter(self, name, BTreeMap::new())
    }

    /// Like [`phase`](Self::phase), with facts by name, such as the batch number.
    pub fn phase_with(&self, name: &str, metadata: BTreeMap<String, String>) -> PhaseGuard<'_> {
        PhaseGuard::enter(self, name, metadata)
    }

    /// Returns the open phases of all threads, in the order in which they were entered.
    pub fn open_phases(&self) -> Arc<[Arc<PhaseScope>]> {
        lock(&self.shared.phases).open()
    }

    /// Returns the kept events, oldest first.
    pub fn events(&self) -> Vec<TrackerEvent> {
        lock(&self.shared.state).events.iter().cloned().collect()
    }

    /// Returns the kept alerts, oldest first.
    pub fn alerts(&self) -> Vec<Alert> {
        lock(&self.shared.state).alerts.iter().cloned().collect()
    }

    /// Returns the thresholds whose value was never known, because the source does not know it, or because growth was not measured for long
    /// enough.
    pub fn never_measured(&self) -> Vec<Threshold> {
        lock(&self.shared.state).never_measured.clone()
    }

    /// Returns the kept samples, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        lock(&self.shared.state).samples.iter().map(|seen| seen.sample).collect()
    }

    /// Returns the kept samples, each with the phases that were open at the time.
    pub fn samples_in_phases(&self) -> Vec<PhasedSample> {
        lock(&self.shared.state).samples.iter().cloned().collect()
    }

    /// Groups the kept samples by intervals, starting with the first sample: the last reading and the peaks of each interval. Intervals
    /// without a sample are left out.
    ///
    /// # Errors
    /// The interval is shorter than a microsecond.
    pub fn memory_timeline(&self, interval: Duration) -> Result<Vec<TimelinePoint>, MonitorError> {
        timeline::timeline(self.samples().iter(), interval)
    }

    /// Classifies the device memory outside the pool, from the kept samples.
    pub fn hidden_memory(&self, options: HiddenOptions) -> HiddenMemory {
        HiddenMemory::of(&self.samples(), options)
    }

    /// Drops the kept events, alerts and samples, and resets the statistics. The log file keeps its rows, phases stay open, and raised
    /// alerts stay raised.
    pub fn clear_events(&self) {
        let mut state = lock(&self.shared.state);
        state.events.clear();
        state.alerts.clear();
        state.samples.clear();
        state.statistics = TrackerStatistics { high_is_exact: true, ..TrackerStatistics::default() };
    }

    /// Returns counts of all samples and events since the start or [`clear_events`](Self::clear_events), including those no longer kept.
    pub fn statistics(&self) -> TrackerStatistics {
        lock(&self.shared.state).statistics
    }

    /// Returns the last write error of the log file, such as a full disk. Unwritten rows are written with the next sample, up to 1 MiB;
    /// further rows are lost. [`io::ErrorKind::NotFound`]: the file was removed or replaced, so its rows are lost.
    pub fn log_error(&self) -> Option<io::ErrorKind> {
        lock(&self.shared.state).log.as_ref()?.error()
    }

    /// Writes the kept events and samples in time order.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn export_events(&self, format: LogFormat, out: &mut dyn Write) -> io::Result<()> {
        let (events, samples) = {
            let state = lock(&self.shared.state);
            (state.events.clone(), state.samples.clone())
        };
        write_log(&events, &samples, format, out)
    }
}

impl Drop for MemoryTracker {
    fn drop(&mut self) {
        // Without a lock: in a forked process, another thread of the parent may have held it during the fork.
        let monitor = self.monitor.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.end(monitor);
    }
}
