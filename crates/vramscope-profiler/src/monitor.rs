//! [`Monitor`]: samples a source at intervals, on a separate thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::snapshot::now_us;
use crate::source::{MemorySource, SourceError, Tick, Ticker};

/// Samples a source at intervals, on a separate thread, until it is stopped or dropped.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::{Monitor, PoolSource};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
/// let samples = Arc::new(Mutex::new(Vec::new()));
/// let seen = samples.clone();
/// let monitor = Monitor::start(PoolSource::new(&pool, 0)?, Duration::from_secs(60), move |sample| {
///     seen.lock().unwrap().extend(sample.ok());
/// })?;
/// drop(pool.malloc(4096)?);   // much shorter than the interval
/// monitor.stop();
/// let last = samples.lock().unwrap().last().cloned().unwrap();
/// assert_eq!((last.tick.now.allocated, last.tick.high.allocated), (Some(0), Some(4096)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The first sample is taken immediately, and the last when the monitor is stopped. In between, samples are taken at multiples of the
/// interval from the start, independent of how long each one takes. If a sample takes longer than the interval, the missed samples are
/// skipped and counted. Nothing waits for the GPU, and several monitors of one source do not disturb each other.
///
/// A forked process does not have the thread, so dropping the monitor there does nothing.
pub struct Monitor {
    /// Dropped to stop the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    interval: Duration,
    /// The process that runs the thread. A forked process does not have the thread.
    process: u32,
}

/// One sample of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The time of the sample, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The current values, and the peaks since the previous sample.
    pub tick: Tick,
    /// Number of samples skipped since the previous sample, because that sample took longer than the interval.
    pub missed: u64,
}

/// The reason why a monitor did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The interval is shorter than a microsecond.
    #[error("the interval is shorter than a microsecond; set it to 1 microsecond or more")]
    NoInterval,
    /// Monitoring is already running.
    #[error("monitoring runs already, every {} s; stop it first", interval.as_secs_f64())]
    Running {
        /// The interval of the running monitor.
        interval: Duration,
    },
    /// The system cannot start a thread.
    #[error("cannot start the monitor's thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Monitor {
    /// Samples `source` every `interval` and passes each sample to `on_sample`, on the monitor's thread. The monitor ends after the error
    /// [`SourceError::Gone`].
    ///
    /// # Errors
    /// The interval is shorter than a microsecond, or the system cannot start a thread.
    pub fn start(
        source: Arc<dyn MemorySource>,
        interval: Duration,
        on_sample: impl FnMut(Result<Sample, SourceError>) + Send + 'static,
    ) -> Result<Self, MonitorError> {
        check(interval)?;
        let (running, stopped) = channel();
        let wait = move |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
        let start = FirstSample::now(&source);
        let thread = std::thread::Builder::new()
            .name("vramscope-monitor".to_owned())
            .spawn(move || run(start, interval, wait, on_sample))?;
        Ok(Self { running: Some(running), thread: Some(thread), interval, process: std::process::id() })
    }

    /// Returns the time between two samples.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether the monitor still runs. It ends by itself if its source has ended or `on_sample` panicked.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Whether this process started it. False in a forked child.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Takes a last sample and stops, without waiting for the interval.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            // This process has no thread to stop. Its handles must not be dropped either: the channel's lock may be held forever, and the
            // thread's system id may refer to another thread.
            std::mem::forget((self.running.take(), self.thread.take()));
            return;
        }
        drop(self.running.take());
        if let Some(thread) = self.thread.take().filter(|t| t.thread().id() != std::thread::current().id()) {
            // The panic hook has already reported a panic of the thread.
            thread.join().ok();
        }
    }
}

/// Rejects an interval shorter than a microsecond.
pub(crate) fn check(interval: Duration) -> Result<(), MonitorError> {
    if interval < Duration::from_micros(1) { Err(MonitorError::NoInterval) } else { Ok(()) }
}

/// The first sample, taken before the thread runs, and the state that the thread continues with.
struct FirstSample {
    sampler: Sampler,
    first: Result<Sample, SourceError>,
    at: Instant,
}

/// Takes samples of a source.
struct Sampler {
    ticker: Box<dyn Ticker>,
    /// The source's name, for errors.
    name: String,
}

impl FirstSample {
    fn now(source: &Arc<dyn MemorySource>) -> Self {
        let at = Instant::now();
        let name = source.info().name.clone();
        let mut sampler = Sampler { ticker: Arc::clone(source).ticker(), name };
        let first = sampler.sample(0);
        Self { sampler, first, at }
    }
}

impl Sampler {
    /// Takes a sample after `missed` skipped ones. Returns a panic of the source as an error, because the next sample may succeed.
    fn sample(&mut self, missed: u64) -> Result<Sample, SourceError> {
        let tick = catch_unwind(AssertUnwindSafe(|| self.ticker.tick()));
        let tick = tick.unwrap_or_else(|_| Err(SourceError::Panicked(self.name.clone())))?;
        Ok(Sample { time_us: now_us(), tick, missed })
    }
}

/// Takes samples until `wait`, which waits for the given time, returns false; then takes one more.
fn run(
    start: FirstSample,
    interval: Duration,
    wait: impl Fn(Duration) -> bool,
    mut on_sample: impl FnMut(Result<Sample, SourceError>),
) {
    let FirstSample { mut sampler, first: mut sample, at } = start;
    let (mut number, mut running) = (0u128, true);
    loop {
        let gone = matches!(sample, Err(SourceError::Gone(_)));
        on_sample(sample);
        if gone || !running {
            return;
        }
        let elapsed = at.elapsed().as_nanos();
        let next = (elapsed / interval.as_nanos() + 1).max(number + 1);
        let missed = u64::try_from(next - number - 1).unwrap_or(u64::MAX);
        number = next;
        let until = next.saturating_mul(interval.as_nanos()).saturating_sub(elapsed);
        running = wait(Duration::from_nanos(u64::try_from(until).unwrap_or(u64::MAX)));
        sample = sampler.sample(missed);
    }
}

#[cfg(test)]
mod tests;
