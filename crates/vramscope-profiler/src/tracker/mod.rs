//! [`MemoryTracker`]: watches a source all the time, with a log of events, alerts and a watchdog.

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
pub use events::{Event, EventKind, LogFormat};
pub use log::LogFile;
pub use options::{TrackerOptions, TrackerStatistics, Watchdog};
pub use phase_scope::{PhaseScope, PhasedSample};
pub use phases::Phase;
pub use thresholds::{Alert, Quantity, Severity, Threshold};
pub use timeline::TimelinePoint;

use crate::hidden::{HiddenMemory, HiddenOptions};
use crate::monitor::{Monitor, MonitorError, Sample, check};
use crate::source::MemorySource;
use events::write_log;
use log::OpenLog;
use sample_judge::SampleJudge;
use shared::{RegisteredCallback, Thresholds, TrackerShared, TrackerState};
use vramscope_basics::lock;

/// Called when an alert is raised, on the tracker's thread. It should return soon, because no sample is taken meanwhile. A callback
/// that owns the tracker keeps it alive for ever.
pub type AlertCallback = Arc<dyn Fn(&Alert) + Send + Sync>;

/// Watches a source, raises alerts, and keeps a log: gpumemprof's `MemoryTracker`.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::{MemoryTracker, PoolSource, Quantity, Severity, Threshold, TrackerOptions};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 100 << 20)?;
/// let nearly_full = Threshold::new(Quantity::DevicePercent, Severity::Critical, 90.0);
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
/// # What differs from gpumemprof
/// - One crossing of a threshold raises one alert. It is raised again only after the value has fallen to the threshold's lower
///   mark. gpumemprof raises an alert with every sample.
/// - On a pool, each sample has the exact highest values since the one before, and alerts are raised by those. Allocations are
///   counted, and not guessed from samples that rose.
/// - Growth counts only bytes that stay allocated, and not what was allocated at the start. Fragmentation is what emptying the
///   cache would not give back. Memory outside of the pool is what the driver reports.
/// - Events and samples are bounded apart, so that samples do not push events out.
/// - It tracks any source, also one of another process.
pub struct MemoryTracker {
    shared: Arc<TrackerShared>,
    monitor: Mutex<Option<Monitor>>,
}

impl MemoryTracker {
    /// Begins to track `source`, and takes a first sample.
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

    /// Takes a last sample and ends tracking. Events and samples are kept.
    pub fn stop(&self) {
        let monitor = lock(&self.monitor).take();
        self.end(monitor);
    }

    /// Ends the monitor, if there still is one, and records that tracking ended.
    fn end(&self, monitor: Option<Monitor>) {
        let Some(monitor) = monitor else { return };
        let is_here = monitor.is_of_this_process();
        monitor.stop();
        // In a forked process nothing has ended, and the log is the parent's.
        if is_here {
            self.shared.record_event(EventKind::Stop);
        }
    }

    /// Whether tracking was not stopped and the source still exists.
    pub fn is_running(&self) -> bool {
        lock(&self.monitor).as_ref().is_some_and(Monitor::is_running)
    }

    /// Calls `callback` once for every alert. For alerts that were raised before and are kept, it is called now, on this thread. A
    /// panic in it is counted and not passed on.
    pub fn add_alert_callback(&self, callback: AlertCallback) {
        lock(&self.shared.callbacks).push(RegisteredCallback { callback, alerts: 0 });
        self.shared.call_alert_callbacks();
    }

    /// No longer calls `callback`, which must be a clone of the `Arc` that was added. Returns false where it is not among the
    /// callbacks. It may still be called for an alert that is being raised at this moment.
    pub fn remove_alert_callback(&self, callback: &AlertCallback) -> bool {
        let mut callbacks = lock(&self.shared.callbacks);
        let is_it = |told: &RegisteredCallback| {
            Arc::as_ptr(&told.callback).cast::<()>() == Arc::as_ptr(callback).cast()
        };
        let removed = callbacks.iter().position(is_it).map(|i| callbacks.remove(i));
        drop(callbacks);
        // With nothing locked, because dropping it may run code of the program.
        removed.is_some()
    }

    /// Sets a threshold from the next sample on, in place of one of the same quantity and severity. Where its value has been
    /// reached already, an alert is raised.
    ///
    /// # Errors
    /// [`TrackerError::Threshold`] where it could never be crossed, or its alert could never be over.
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

    /// Removes a threshold from the next sample on. Returns false where there is none of this quantity and severity.
    pub fn remove_threshold(&self, quantity: Quantity, severity: Severity) -> bool {
        let mut thresholds = lock(&self.shared.thresholds);
        let before = thresholds.now.len();
        thresholds.now.retain(|threshold| !threshold.is_of(quantity, severity));
        let removed = thresholds.now.len() < before;
        thresholds.changes += u64::from(removed);
        removed
    }

    /// The thresholds that hold from the next sample on.
    pub fn thresholds(&self) -> Vec<Threshold> {
        lock(&self.shared.thresholds).now.clone()
    }

    /// Names what the calling thread does until the guard is dropped. The log gets an event at the beginning and one at the end,
    /// and samples that are taken meanwhile have the phase. Phases nest on each thread.
    pub fn phase(&self, name: &str) -> Phase<'_> {
        Phase::enter(self, name, BTreeMap::new())
    }

    /// As [`phase`](Self::phase), with facts by name, such as the number of a batch.
    pub fn phase_with(&self, name: &str, metadata: BTreeMap<String, String>) -> Phase<'_> {
        Phase::enter(self, name, metadata)
    }

    /// The phases that are open, on all threads, in the order in which they were entered.
    pub fn open_phases(&self) -> Arc<[Arc<PhaseScope>]> {
        lock(&self.shared.phases).open()
    }

    /// The events that are kept, oldest first.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.shared.state).events.iter().cloned().collect()
    }

    /// The alerts that were raised and are kept, oldest first.
    pub fn alerts(&self) -> Vec<Alert> {
        lock(&self.shared.state).alerts.iter().cloned().collect()
    }

    /// Thresholds whose value was never known so far, because the source does not know it, or because growth has not yet been
    /// watched for long enough.
    pub fn never_measured(&self) -> Vec<Threshold> {
        lock(&self.shared.state).never_measured.clone()
    }

    /// The samples that are kept, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        lock(&self.shared.state).samples.iter().map(|seen| seen.sample).collect()
    }

    /// The samples that are kept, each with the phases that were open when it was taken.
    pub fn samples_in_phases(&self) -> Vec<PhasedSample> {
        lock(&self.shared.state).samples.iter().cloned().collect()
    }

    /// The samples that are kept, gathered by intervals that begin with the first of them: the last reading and the highest values
    /// of each interval. Intervals without a sample are left out.
    ///
    /// # Errors
    /// Where the interval is shorter than a microsecond.
    pub fn memory_timeline(&self, interval: Duration) -> Result<Vec<TimelinePoint>, MonitorError> {
        timeline::timeline(self.samples().iter(), interval)
    }

    /// Classifies the device memory outside of the pool, from the samples that are kept.
    pub fn hidden_memory(&self, options: HiddenOptions) -> HiddenMemory {
        HiddenMemory::of(&self.samples(), options)
    }

    /// Drops the events, alerts and samples that are kept, and begins the statistics anew. The log file keeps what was written,
    /// phases stay open, and alerts that are raised stay raised.
    pub fn clear_events(&self) {
        let mut state = lock(&self.shared.state);
        state.events.clear();
        state.alerts.clear();
        state.samples.clear();
        state.statistics = TrackerStatistics { high_is_exact: true, ..TrackerStatistics::default() };
    }

    /// Counts of all samples and events since the start or [`clear_events`](Self::clear_events), also of those no longer kept.
    pub fn statistics(&self) -> TrackerStatistics {
        lock(&self.shared.state).statistics
    }

    /// The last error of the log file, such as a full disk. Rows that were not written are written together with the next sample, up
    /// to 1 MiB of them; rows beyond are lost.
    pub fn log_error(&self) -> Option<io::ErrorKind> {
        lock(&self.shared.state).log.as_ref()?.error()
    }

    /// Writes the events and samples that are kept, in the order of time.
    ///
    /// # Errors
    /// Where `out` fails.
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
        // Without a lock: in a forked process, another thread of the parent may have held it at the fork.
        let monitor = self.monitor.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.end(monitor);
    }
}
