//! Watching a source all the time: an events log, alerts, a watchdog.

mod events;
mod thresholds;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;

pub use events::{Event, EventKind, LogFormat};
pub use thresholds::{Alert, Quantity, Severity, Threshold};

use crate::monitor::{Monitor, MonitorError, Sample};
use crate::snapshot::now_us;
use crate::source::{Counts, MemorySource, Reading, SourceError};
use crate::sync::lock;
use events::{Row, write_header, write_log};
use thresholds::{Change, Gauge, Growth};

/// Called on the tracker's thread when an alert is raised. It should not take long: meanwhile nothing is looked at.
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
    /// The time over which growth is measured. Before nine tenths of it have passed, none is known.
    pub growth_window: Duration,
    /// Frees cached memory.
    pub watchdog: Option<Watchdog>,
    /// A file that every event and sample is written to at once; a program that is killed leaves it whole.
    pub log: Option<LogFile>,
    /// Events that are kept.
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

/// A file to write a log to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Replaced if it is there.
    pub path: PathBuf,
    /// Its format.
    pub format: LogFormat,
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
    callbacks: Mutex<Vec<AlertCallback>>,
    max_events: usize,
    max_samples: usize,
}

struct State {
    events: VecDeque<Event>,
    samples: VecDeque<Sample>,
    statistics: TrackerStatistics,
    log: Option<OpenLog>,
}

struct OpenLog {
    file: File,
    format: LogFormat,
    /// Rows of the look that is under way.
    waiting: Vec<u8>,
    failed: Option<io::ErrorKind>,
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
        let log = options.log.as_ref().map(OpenLog::create).transpose()?;
        let statistics = TrackerStatistics { high_is_exact: true, ..TrackerStatistics::default() };
        let (events, samples) = (VecDeque::new(), VecDeque::new());
        let shared = Arc::new(Shared {
            source: Arc::clone(&source),
            state: Mutex::new(State { events, samples, statistics, log }),
            callbacks: Mutex::default(),
            max_events: options.max_events,
            max_samples: options.max_samples,
        });
        shared.happened(EventKind::Start(source.info().name.clone()));
        let mut lookout = Lookout {
            shared: Arc::clone(&shared),
            gauges: options.thresholds.iter().copied().map(Gauge::new).collect(),
            growth: Growth::new(options.growth_window),
            watchdog: options.watchdog.map(|watchdog| (watchdog, None)),
            counts: None,
            failing: false,
        };
        let monitor = Monitor::start(source, options.interval, move |sample| lookout.see(sample))?;
        Ok(Self { shared, monitor: Mutex::new(Some(monitor)) })
    }

    /// Looks a last time and ends, at once. What was seen stays at hand.
    pub fn stop(&self) {
        let Some(monitor) = lock(&self.monitor).take() else { return };
        monitor.stop();
        self.shared.happened(EventKind::Stop);
    }

    /// It has not been stopped, and its source is still there.
    pub fn is_running(&self) -> bool {
        lock(&self.monitor).as_ref().is_some_and(Monitor::is_running)
    }

    /// Calls `callback` when an alert is raised. A panic in it is counted and goes no further.
    pub fn add_alert_callback(&self, callback: AlertCallback) {
        lock(&self.shared.callbacks).push(callback);
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

    /// The alerts among the events.
    pub fn alerts(&self) -> Vec<Alert> {
        let state = lock(&self.shared.state);
        let alerts = state.events.iter().filter_map(|event| match &event.kind {
            EventKind::Alert(alert) => Some(alert.clone()),
            _ => None,
        });
        alerts.collect()
    }

    /// What was seen, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        lock(&self.shared.state).samples.iter().copied().collect()
    }

    /// All of it in numbers, also of what is no longer kept.
    pub fn statistics(&self) -> TrackerStatistics {
        lock(&self.shared.state).statistics
    }

    /// The error that the log file met last, such as a full disk. Rows it did not take are lost.
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

impl OpenLog {
    fn create(to: &LogFile) -> Result<Self, TrackerError> {
        let failed = |why| TrackerError::Log { path: to.path.clone(), why };
        let file = File::create(&to.path).map_err(failed)?;
        let mut waiting = Vec::new();
        write_header(to.format, &mut waiting).map_err(failed)?;
        Ok(Self { file, format: to.format, waiting, failed: None })
    }

    fn add(&mut self, row: Row<'_>) {
        if let Err(e) = row.write(self.format, &mut self.waiting) {
            self.failed = Some(e.kind());
        }
    }

    /// Whole rows in one write.
    fn write_out(&mut self) {
        if let Err(e) = self.file.write_all(&self.waiting) {
            self.failed = Some(e.kind());
        }
        self.waiting.clear();
    }
}

/// What the tracker's thread knows.
struct Lookout {
    shared: Arc<Shared>,
    gauges: Vec<Gauge>,
    growth: Growth,
    /// And when it last gave memory back.
    watchdog: Option<(Watchdog, Option<i64>)>,
    counts: Option<Counts>,
    failing: bool,
}

impl Lookout {
    fn see(&mut self, sample: Result<Sample, SourceError>) {
        let events = match &sample {
            Ok(sample) => self.judge(sample),
            Err(e @ SourceError::Gone(_)) => vec![EventKind::Gone(e.to_string())],
            Err(e) if !self.failing => vec![EventKind::Error(e.to_string())],
            Err(_) => Vec::new(),
        };
        self.failing = sample.is_err();
        let time_us = sample.as_ref().map_or_else(|_| now_us(), |sample| sample.time_us);
        let alerts: Vec<Alert> = {
            let mut state = lock(&self.shared.state);
            match sample {
                Ok(sample) => state.saw(sample, self.shared.max_samples),
                Err(_) => state.statistics.errors += 1,
            }
            let mut alerts = Vec::new();
            for kind in events {
                match &kind {
                    EventKind::Alert(alert) => alerts.push(alert.clone()),
                    EventKind::Cleanup { .. } => state.statistics.cleanups += 1,
                    _ => {}
                }
                state.happened(Event { time_us, kind }, self.shared.max_events);
            }
            state.statistics.alerts += alerts.len() as u64;
            state.write_out();
            alerts
        };
        // With nothing locked, for it is code of others.
        for alert in &alerts {
            let callbacks = lock(&self.shared.callbacks).clone();
            for callback in callbacks {
                if catch_unwind(AssertUnwindSafe(|| callback(alert))).is_err() {
                    lock(&self.shared.state).statistics.callback_panics += 1;
                }
            }
        }
    }

    /// What happened with a sample.
    fn judge(&mut self, sample: &Sample) -> Vec<EventKind> {
        let mut events = Vec::new();
        if let (Some(now), Some(before)) = (sample.tick.now.counts, self.counts) {
            let more = |of: fn(&Counts) -> u64| Some(of(&now).saturating_sub(of(&before))).filter(|&n| n > 0);
            events.extend(more(|c| c.num_alloc_retries).map(EventKind::Retry));
            events.extend(more(|c| c.num_ooms).map(EventKind::OutOfMemory));
        }
        self.counts = sample.tick.now.counts;
        let growth = sample.tick.now.allocated.and_then(|bytes| self.growth.see(sample.time_us, bytes));
        // Asked once, and only where somebody wants to know.
        let wanted = |g: &Gauge| g.threshold.quantity == Quantity::ExternalFragmentationPercent;
        let split =
            if self.gauges.iter().any(wanted) { self.shared.source.inactive_split_bytes() } else { None };
        for gauge in &mut self.gauges {
            let value = match gauge.threshold.quantity {
                Quantity::DevicePercent => percent_in_use(sample),
                Quantity::ExternalFragmentationPercent => {
                    split.zip(sample.tick.now.device_total).and_then(|(part, whole)| percent(part, whole))
                }
                Quantity::GrowthPerMinute => growth,
                Quantity::Hidden => sample.tick.now.hidden().map(|bytes| bytes as f64),
            };
            let Some(value) = value else { continue };
            let Some(change) = gauge.see(value, sample.time_us) else { continue };
            let alert = Alert { time_us: sample.time_us, threshold: gauge.threshold, value, sample: *sample };
            events.push(match change {
                Change::Raised => EventKind::Alert(alert),
                Change::Cleared => EventKind::Cleared(alert),
            });
        }
        events.extend(self.clean_up(sample));
        events
    }

    /// Gives cached memory back, where it is time.
    fn clean_up(&mut self, sample: &Sample) -> Option<EventKind> {
        let (watchdog, last_us) = self.watchdog.as_mut()?;
        if percent_in_use(sample)? < watchdog.above_percent {
            return None;
        }
        let waited = last_us.map(|last| sample.time_us.saturating_sub(last).max(0).unsigned_abs());
        if waited.is_some_and(|us| u128::from(us) < watchdog.min_interval.as_micros()) {
            return None;
        }
        let source = &self.shared.source;
        let before = source.read().ok()?;
        let cached = before.inactive()?.saturating_sub(source.inactive_split_bytes()?);
        if cached == 0 {
            return None;
        }
        *last_us = Some(sample.time_us);
        match source.free_cache().and_then(|()| source.read()) {
            Ok(after) => Some(EventKind::Cleanup { before: before.reserved?, after: after.reserved? }),
            Err(e) => Some(EventKind::Error(e.to_string())),
        }
    }
}

/// The most of the device in use since the sample before: at least what the pool had reserved of it.
fn percent_in_use(sample: &Sample) -> Option<f64> {
    let Reading { device_used, reserved, .. } = sample.tick.high;
    percent(device_used.max(reserved)?, sample.tick.now.device_total?)
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

impl LogFile {
    /// A log at `path`: CSV where its name ends in `.csv`, else JSON Lines.
    pub fn at(path: &Path) -> Self {
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let format = if is_csv { LogFormat::Csv } else { LogFormat::JsonLines };
        Self { path: path.to_owned(), format }
    }
}
