//! Watching a source all the time: an events log, alerts, a watchdog.

mod events;
mod log;
mod lookout;
mod thresholds;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;

pub use events::{Event, EventKind, LogFormat};
pub use log::LogFile;
pub use thresholds::{Alert, Quantity, Severity, Threshold};

use crate::monitor::{Monitor, MonitorError, Sample, check};
use crate::snapshot::now_us;
use crate::source::{MemorySource, Reading};
use crate::sync::lock;
use events::{Row, write_log};
use log::OpenLog;
use lookout::Lookout;

/// Called when an alert is raised, on the tracker's thread. It should not take long: meanwhile nothing is looked at. One
/// that owns the tracker keeps it for ever.
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
/// - One crossing of a threshold is one alert: it is raised again only after the value has fallen below the
///   threshold's lower mark. gpumemprof alerts with every sample.
/// - On a pool each sample has the exact high-water mark since the one before, and alerts look at that. Allocations are
///   counted, not guessed from samples that rose.
/// - Growth is that of what stays; what was there at the start is none. Fragmentation is what emptying the cache would
///   not give back. Memory outside of the pool is what the driver says it is.
/// - Events are kept apart from samples, so that samples do not push them out.
/// - It watches what its source is of, another process too.
pub struct MemoryTracker {
    shared: Arc<Shared>,
    monitor: Mutex<Option<Monitor>>,
}

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

/// Why a tracker did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrackerError {
    /// A threshold that can never be crossed, or never be over.
    #[error("a threshold's marks must be numbers, `until` not above `above`: {0:?}")]
    Threshold(Threshold),
    /// A watchdog that would never or always clean up.
    #[error("a watchdog's mark must be a percentage: {0}")]
    Watchdog(f64),
    /// The monitor's.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// The log could not be written.
    #[error("{path}: {why}", path = path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}

struct Shared {
    source: Arc<dyn MemorySource>,
    state: Mutex<State>,
    callbacks: Mutex<Vec<Told>>,
    max_events: usize,
    max_samples: usize,
}

/// A callback, and how many alerts it was told of.
struct Told {
    callback: AlertCallback,
    alerts: u64,
}

struct State {
    alerts: VecDeque<Alert>,
    /// Thresholds of which no value was ever known.
    never_measured: Vec<Threshold>,
    events: VecDeque<Event>,
    samples: VecDeque<Sample>,
    statistics: TrackerStatistics,
    log: Option<OpenLog>,
}

impl MemoryTracker {
    /// Begins to watch `source`, with a look at once.
    ///
    /// # Errors
    /// See [`TrackerError`].
    pub fn start(source: Arc<dyn MemorySource>, options: TrackerOptions) -> Result<Self, TrackerError> {
        if let Some(senseless) = options.thresholds.iter().find(|t| !t.is_sensible()) {
            return Err(TrackerError::Threshold(*senseless));
        }
        if let Some(watchdog) = options.watchdog.filter(|w| !(0.0..=100.0).contains(&w.above_percent)) {
            return Err(TrackerError::Watchdog(watchdog.above_percent));
        }
        check(options.interval)?;
        let log = options.log.as_ref().map(OpenLog::create).transpose()?;
        let statistics = TrackerStatistics { high_is_exact: true, ..TrackerStatistics::default() };
        let state = State {
            alerts: VecDeque::new(),
            never_measured: options.thresholds.clone(),
            events: VecDeque::new(),
            samples: VecDeque::new(),
            statistics,
            log,
        };
        let shared = Arc::new(Shared {
            source: Arc::clone(&source),
            state: Mutex::new(state),
            callbacks: Mutex::default(),
            max_events: options.max_events,
            max_samples: options.max_samples,
        });
        shared.happened(EventKind::Start(source.info().name.clone()));
        let mut lookout = Lookout::new(Arc::clone(&shared), &options);
        let monitor = Monitor::start(source, options.interval, move |sample| lookout.see(sample))?;
        Ok(Self { shared, monitor: Mutex::new(Some(monitor)) })
    }

    /// Looks a last time and ends, at once. What was seen stays at hand.
    pub fn stop(&self) {
        let Some(monitor) = lock(&self.monitor).take() else { return };
        let is_here = monitor.is_of_this_process();
        monitor.stop();
        // In a forked process nothing has ended, and the log is the parent's.
        if is_here {
            self.shared.happened(EventKind::Stop);
        }
    }

    /// It has not been stopped, and its source is still there.
    pub fn is_running(&self) -> bool {
        lock(&self.monitor).as_ref().is_some_and(Monitor::is_running)
    }

    /// Calls `callback` for every alert, once: now, on this thread, for those that were raised already and are kept. A
    /// panic in it is counted and goes no further.
    pub fn add_alert_callback(&self, callback: AlertCallback) {
        lock(&self.shared.callbacks).push(Told { callback, alerts: 0 });
        self.shared.tell();
    }

    /// Names what happens until the guard is dropped: two events in the log.
    pub fn phase(&self, name: &str) -> Phase<'_> {
        self.shared.happened(EventKind::PhaseEnter(name.to_owned()));
        Phase { tracker: self, name: name.to_owned() }
    }

    /// What happened, oldest first.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.shared.state).events.iter().cloned().collect()
    }

    /// The alerts that were raised, oldest first.
    pub fn alerts(&self) -> Vec<Alert> {
        lock(&self.shared.state).alerts.iter().cloned().collect()
    }

    /// Thresholds that could not be crossed so far, for the source did not know their quantity, or not for long enough.
    pub fn never_measured(&self) -> Vec<Threshold> {
        lock(&self.shared.state).never_measured.clone()
    }

    /// What was seen, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        lock(&self.shared.state).samples.iter().copied().collect()
    }

    /// All of it in numbers, also of what is no longer kept.
    pub fn statistics(&self) -> TrackerStatistics {
        lock(&self.shared.state).statistics
    }

    /// The error that the log file met last, such as a full disk. What it did not take is tried again with the next look,
    /// up to a MiB of it; rows beyond are lost.
    pub fn log_error(&self) -> Option<io::ErrorKind> {
        lock(&self.shared.state).log.as_ref()?.failed
    }

    /// Writes events and samples that are kept, by time.
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
        self.stop();
    }
}

/// A phase of the program, until it is dropped.
#[must_use = "the phase ends when the guard is dropped"]
pub struct Phase<'t> {
    tracker: &'t MemoryTracker,
    name: String,
}

impl Drop for Phase<'_> {
    fn drop(&mut self) {
        self.tracker.shared.happened(EventKind::PhaseExit(std::mem::take(&mut self.name)));
    }
}

impl Shared {
    /// Tells callbacks of the alerts they were not told of.
    fn tell(&self) {
        loop {
            let next = {
                let mut callbacks = lock(&self.callbacks);
                let state = lock(&self.state);
                let raised = state.statistics.alerts;
                callbacks.iter_mut().find(|told| told.alerts < raised).map(|told| {
                    let kept = state.alerts.len() as u64;
                    let missed = raised - std::mem::replace(&mut told.alerts, raised);
                    let alerts = state.alerts.iter().skip((kept - missed.min(kept)) as usize);
                    (Arc::clone(&told.callback), alerts.cloned().collect::<Vec<_>>())
                })
            };
            // With nothing locked, for it is code of others.
            let Some((callback, alerts)) = next else { return };
            for alert in alerts {
                if catch_unwind(AssertUnwindSafe(|| callback(&alert))).is_err() {
                    lock(&self.state).statistics.callback_panics += 1;
                }
            }
        }
    }

    fn happened(&self, kind: EventKind) {
        let mut state = lock(&self.state);
        state.happened(Event { time_us: now_us(), kind }, self.max_events);
        state.write_out();
    }
}

impl State {
    fn happened(&mut self, event: Event, most: usize) {
        if let Some(log) = &mut self.log {
            log.add(Row::Event(&event));
        }
        let seen = &mut self.statistics;
        match &event.kind {
            EventKind::Alert(alert) => {
                seen.alerts += 1;
                self.alerts.push_back(alert.clone());
                while self.alerts.len() > most {
                    self.alerts.pop_front();
                }
            }
            EventKind::Cleanup { .. } => seen.cleanups += 1,
            EventKind::OutOfMemory(n) => seen.failed_requests += n,
            EventKind::Retry(n) => seen.retries += n,
            _ => {}
        }
        self.events.push_back(event);
        while self.events.len() > most {
            self.events.pop_front();
        }
    }

    fn saw(&mut self, sample: Sample, most: usize) {
        if let Some(log) = &mut self.log {
            log.add(Row::Sample(&sample));
        }
        let seen = &mut self.statistics;
        seen.samples += 1;
        seen.missed_ticks += sample.missed;
        seen.high = seen.high.max(sample.tick.high);
        seen.high_is_exact &= sample.tick.high_is_exact;
        self.samples.push_back(sample);
        while self.samples.len() > most {
            self.samples.pop_front();
        }
    }

    fn write_out(&mut self) {
        if let Some(log) = &mut self.log {
            log.write_out();
        }
    }
}
