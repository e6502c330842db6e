//! Memory of functions and blocks.

pub mod attribute;
mod future;
mod global;
mod looks;
mod of_pool;
mod peak_stacks;
mod result;
mod scope;
mod summary;
mod threads;
mod words;

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;
use vramscope_allocator::{CapturedStack, MemoryPool, SourceFrame, StackRecorder};

pub use global::{global_profiler, set_global_profiler, take_global_profiler};
pub use of_pool::{OfPool, PoolProfiler};
pub use result::{Outcome, ProfileResult};
pub use scope::ProfileContext;
pub use summary::{FunctionSummary, ProfileSummary};
pub use threads::ThreadUse;

use crate::leaks::{LeakDetector, LeakSuspect};
use crate::monitor::{Monitor, MonitorError};
use crate::snapshot::{MemorySnapshot, Operation, now_us};
use crate::source::{
    Counts, DeviceSpec, MemorySource, Observation, PoolSource, Reading, SelectError, SourceError, SourceInfo,
};
use looks::{Looks, MONITOR_HOLDS, Peak};
use peak_stacks::PeakStacks;
use summary::Totals;
use threads::ThreadTally;
use vramscope_basics::lock;

/// Profiles functions and blocks, and monitors in between: gpumemprof's `GPUMemoryProfiler`, over any
/// [`MemorySource`].
///
/// ```
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::GpuMemoryProfiler;
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
/// let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
/// let (weights, result) = profiler.profile_function("load", || {
///     let _staging = pool.malloc(3_000_000);
///     pool.malloc(1_000_000)
/// });
/// assert_eq!(result.memory_diff(), Some(1_000_448));
/// assert_eq!(result.peak_memory_usage(), Some(4_000_768));
///
/// {
///     let _step = profiler.profile_context("step");
///     drop(pool.malloc(2_000_000));
/// }
/// assert_eq!(profiler.get_summary().total_function_calls, 2);
/// # drop(weights);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What differs from gpumemprof
/// - Every call has its own true peak, however calls nest and whatever runs on other threads; the program's own
///   peaks are not reset. gpumemprof resets the device's peak for each call, and the outer one's is lost.
/// - A call that fails or panics has its true peak and its error.
/// - What a function returns is given to the caller.
/// - Bytes allocated and freed are gross. Numbers the source does not know are `None`.
/// - Nothing is synchronised, and nothing is searched for: counts are those of the pool.
/// - `cpu_memory` is this process's; gpumemprof's is the whole machine's.
/// - Results and snapshots are bounded; the oldest go first. The summary is of all all the same.
///
/// It may be used from any thread. Names are kept for the summary, so they should be few: `step`, not `step 4711`.
pub struct GpuMemoryProfiler {
    shared: Arc<Shared>,
    leaks: Option<LeakDetector>,
    monitor: Mutex<Option<Monitor>>,
    tally: Option<Observation>,
    /// Tells of the allocations at peaks, where stacks are collected.
    _at_peaks: Option<Observation>,
}

/// What a profiler does beside the least: gpumemprof's arguments, and bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilerOptions {
    /// Count blocks that are created and freed, and what each call's own thread does (gpumemprof:
    /// `track_tensors`, by the garbage collector). A malloc or a free costs some 40 ns more.
    pub track_allocations: bool,
    /// Look at this process's host memory too.
    pub track_cpu_memory: bool,
    /// Keep with each snapshot before and after a call who called, and with its peak who allocated when it was reached.
    /// Stacks are looked up when a call ends or begins, which takes long the first time.
    pub collect_stack_traces: bool,
    /// Look for leaks across calls of the same name; see [`GpuMemoryProfiler::leaks`]. A malloc inside a call
    /// costs about a microsecond more.
    pub find_leaks: bool,
    /// Snapshots that are kept.
    pub max_snapshots: usize,
    /// Results that are kept.
    pub max_results: usize,
}

impl Default for ProfilerOptions {
    /// Allocations and host memory, no stacks and no leaks; 10,000 snapshots and results.
    fn default() -> Self {
        Self {
            track_allocations: true,
            track_cpu_memory: true,
            collect_stack_traces: false,
            find_leaks: false,
            max_snapshots: 10_000,
            max_results: 10_000,
        }
    }
}

/// Why a profiler was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfilerError {
    /// There is no such device.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The source does not answer.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A bound of nothing.
    #[error("{0} is 0, so that none would be kept; name 1 or more")]
    NothingKept(&'static str),
    /// Leaks are wanted of a source that does not see allocations.
    #[error("{0} does not see allocations, so leaks cannot be found in it; profile a pool")]
    NoAllocations(String),
}

pub(super) struct Shared {
    /// Names this profiler among the calls of a thread.
    id: u64,
    looks: Looks,
    options: ProfilerOptions,
    stacks: Arc<StackRecorder>,
    peak_stacks: Option<Arc<PeakStacks>>,
    state: Mutex<State>,
}

struct State {
    results: VecDeque<ProfileResult>,
    snapshots: VecDeque<MemorySnapshot>,
    totals: Totals,
    baseline: MemorySnapshot,
    /// The highest since the baseline. Shared, because asking it is code of others.
    peak: Arc<Peak>,
}

impl GpuMemoryProfiler {
    /// Profiles one device of a pool: its number, `"cuda:0"`, or [`DeviceSpec::Current`].
    ///
    /// # Errors
    /// Where the pool has no such device.
    pub fn on_pool<D>(pool: &MemoryPool, device: D) -> Result<Self, ProfilerError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        Self::new(PoolSource::new(pool, device)?)
    }

    /// Profiles what `source` knows.
    ///
    /// # Errors
    /// Where the source does not answer.
    pub fn new(source: Arc<dyn MemorySource>) -> Result<Self, ProfilerError> {
        Self::with_options(source, ProfilerOptions::default())
    }

    /// The same with other options.
    ///
    /// # Errors
    /// Where the source does not answer, or cannot do what is asked for, or nothing would be kept.
    pub fn with_options(
        source: Arc<dyn MemorySource>,
        options: ProfilerOptions,
    ) -> Result<Self, ProfilerError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for (bound, name) in [(options.max_snapshots, "max_snapshots"), (options.max_results, "max_results")]
        {
            if bound == 0 {
                return Err(ProfilerError::NothingKept(name));
            }
        }
        source.read()?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let tally = if options.track_allocations {
            source.observe(Arc::new(ThreadTally { profiler: id }))
        } else {
            None
        };
        let leaks = if options.find_leaks {
            let none = || ProfilerError::NoAllocations(source.info().name.clone());
            Some(LeakDetector::new(source.as_ref()).ok_or_else(none)?)
        } else {
            None
        };
        let looks = Looks::new(source, options.track_cpu_memory);
        let state = State {
            results: VecDeque::new(),
            snapshots: VecDeque::new(),
            totals: Totals::new(),
            peak: Arc::new(looks.watch()),
            baseline: baseline(&looks, &looks.read()),
        };
        let stacks = Arc::new(StackRecorder::new());
        let peak_stacks = options.collect_stack_traces.then(|| PeakStacks::new(Arc::clone(&stacks)));
        let at_peaks = peak_stacks.as_ref().and_then(|stacks| looks.source.observe(Arc::clone(stacks) as _));
        let shared = Shared { id, looks, options, stacks, peak_stacks, state: Mutex::new(state) };
        Ok(Self { shared: Arc::new(shared), leaks, monitor: Mutex::default(), tally, _at_peaks: at_peaks })
    }

    /// What is profiled.
    pub fn source(&self) -> &SourceInfo {
        self.shared.looks.source.info()
    }

    // ---- calls ----

    /// Calls `f` and says what it did to memory. If it panics, the panic is passed on and the result is the last
    /// of [`results`](Self::results).
    pub fn profile_function<R>(&self, name: &str, f: impl FnOnce() -> R) -> (R, ProfileResult) {
        self.profile_judged(name.into(), f, |_| None)
    }

    /// The same; `error` says whether what `f` returned is one.
    fn profile_judged<R>(
        &self,
        name: Arc<str>,
        f: impl FnOnce() -> R,
        error: impl FnOnce(&R) -> Option<String>,
    ) -> (R, ProfileResult) {
        let context = ProfileContext::begin(self, name);
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(value) => {
                let outcome = error(&value).map_or(Outcome::Returned, Outcome::Failed);
                let result = context.end(outcome);
                (value, result)
            }
            Err(panic) => {
                context.end(Outcome::Panicked(message(panic.as_ref())));
                resume_unwind(panic)
            }
        }
    }

    /// As [`profile_function`](Self::profile_function), for a function that may fail.
    ///
    /// # Errors
    /// Those of `f`. The result, with the error in it, is then the last of [`results`](Self::results).
    pub fn try_profile_function<T, E: Display>(
        &self,
        name: &str,
        f: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, ProfileResult), E> {
        let (returned, result) = self.profile_judged(name.into(), f, error_in_words);
        returned.map(|value| (value, result))
    }

    /// Makes a function of which every call is profiled (gpumemprof's decorator). It returns what `f` returns, may be
    /// called by several threads at a time where `f` may, and by itself. Several arguments are a tuple, and `|()|` is none.
    ///
    /// ```
    /// # use vramscope_allocator::{MemoryPool, Policy};
    /// # use vramscope_profiler::GpuMemoryProfiler;
    /// # let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
    /// # let profiler = GpuMemoryProfiler::on_pool(&pool, 0)?;
    /// let step = profiler.wrap("step", |(rows, columns): (u64, u64)| pool.malloc(4 * rows * columns).is_ok());
    /// std::thread::scope(|threads| {
    ///     for rows in [1 << 10, 2 << 10] {
    ///         threads.spawn({ let step = &step; move || assert!(step((rows, 64))) });
    ///     }
    /// });
    /// assert_eq!(profiler.get_summary().function_summaries["step"].call_count, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// What is borrowed for an argument stays borrowed as long as the wrapped function is there. The attribute `#[profile]` of
    /// the crate `vramscope` does it to a function as it is written, with whatever arguments; a closure that changes what it
    /// holds is called through [`profile_function`](Self::profile_function).
    pub fn wrap<'p, A, R, F: Fn(A) -> R>(&'p self, name: &str, f: F) -> impl Fn(A) -> R + use<'p, A, R, F> {
        let name: Arc<str> = name.into();
        move |argument| self.profile_judged(Arc::clone(&name), || f(argument), |_| None).0
    }

    /// As [`wrap`](Self::wrap), for a function that may fail: the result of a call that does has its error.
    pub fn try_wrap<'p, A, T, E: Display, F: Fn(A) -> Result<T, E>>(
        &'p self,
        name: &str,
        f: F,
    ) -> impl Fn(A) -> Result<T, E> + use<'p, A, T, E, F> {
        let name: Arc<str> = name.into();
        move |argument| self.profile_judged(Arc::clone(&name), || f(argument), error_in_words).0
    }

    /// Profiles what happens until the guard is dropped. It stays on its thread.
    pub fn profile_context(&self, name: &str) -> ProfileContext<'_> {
        ProfileContext::begin(self, name.into())
    }

    // ---- monitoring ----

    /// Takes a snapshot every `interval`, on a thread of its own. On a pool each has the exact high-water mark since
    /// the one before, so that nothing shorter than the interval is missed. The first is taken at once.
    ///
    /// # Errors
    /// Where it runs already, or the interval is nothing. gpumemprof ignores a second start and its interval.
    pub fn start_monitoring(&self, interval: Duration) -> Result<(), MonitorError> {
        let running = |monitor: &Option<Monitor>| {
            let running = monitor.as_ref().filter(|m| m.is_running())?;
            Some(MonitorError::Running { interval: running.interval() })
        };
        if let Some(error) = running(&lock(&self.monitor)) {
            return Err(error);
        }
        let shared = Arc::clone(&self.shared);
        let source = Arc::clone(&self.shared.looks.source);
        // With nothing locked, for the source is code of others.
        let started = Monitor::start(source, interval, move |sample| {
            if let Ok(sample) = sample {
                let now = shared.looks.seen(sample.tick.now, MONITOR_HOLDS);
                let high = sample.tick.high;
                shared.keep(shared.snapshot(Operation::Monitor, sample.time_us, &now, &high));
            }
        })?;
        let mut monitor = lock(&self.monitor);
        // Another thread may have been faster.
        match running(&monitor) {
            Some(error) => {
                drop(monitor);
                Err(error)
            }
            None => {
                let ended = monitor.replace(started);
                drop(monitor);
                drop(ended);
                Ok(())
            }
        }
    }

    /// Takes a last snapshot and ends monitoring, at once. Does nothing where it does not run.
    pub fn stop_monitoring(&self) {
        let monitor = lock(&self.monitor).take();
        drop(monitor);
    }

    // ---- what is known ----

    /// What is in use now, with the highest values since the baseline.
    pub fn snapshot(&self) -> MemorySnapshot {
        let now = self.shared.looks.read();
        let peak = Arc::clone(&lock(&self.shared.state).peak);
        let peak = peak.so_far();
        self.shared.snapshot(Operation::Now, now_us(), &now, &peak.max(now))
    }

    /// Calls in the order they ended: what was called inside a call precedes it.
    pub fn results(&self) -> Vec<ProfileResult> {
        lock(&self.shared.state).results.iter().cloned().collect()
    }

    /// The call that ended last.
    pub fn last_result(&self) -> Option<ProfileResult> {
        lock(&self.shared.state).results.back().cloned()
    }

    /// What monitoring saw.
    pub fn snapshots(&self) -> Vec<MemorySnapshot> {
        lock(&self.shared.state).snapshots.iter().cloned().collect()
    }

    /// The state that later ones are compared with: when the profiler was made, or its results were cleared.
    pub fn baseline(&self) -> MemorySnapshot {
        lock(&self.shared.state).baseline.clone()
    }

    /// Lines whose blocks pile up across calls of the same name, where [`find_leaks`](ProfilerOptions::find_leaks) is
    /// set.
    pub fn leaks(&self) -> Vec<LeakSuspect> {
        self.leaks.as_ref().map(LeakDetector::suspects).unwrap_or_default()
    }

    /// All calls together.
    pub fn get_summary(&self) -> ProfileSummary {
        let now = self.shared.looks.read();
        let peak = Arc::clone(&lock(&self.shared.state).peak);
        let highest = peak.so_far().max(now);
        let device = self.source().device();
        let monitoring_active = lock(&self.monitor).as_ref().is_some_and(Monitor::is_running);
        let state = lock(&self.shared.state);
        let difference =
            |a: Option<u64>, b: Option<u64>| Some(a?.cast_signed().wrapping_sub(b?.cast_signed()));
        let used = state.totals.used(now.counts);
        let (allocated, freed) = (used.map(|used| used.0), used.map(|used| used.1));
        ProfileSummary {
            device,
            total_functions_profiled: state.totals.functions.len(),
            total_function_calls: state.totals.calls,
            total_execution_time: state.totals.time.as_secs_f64(),
            total_memory_allocated: allocated,
            total_memory_freed: freed,
            net_memory_change: difference(allocated, freed),
            peak_memory_usage: highest.allocated,
            peak_is_exact: peak.is_exact(),
            current_memory_usage: now.allocated,
            baseline_memory_usage: state.baseline.allocated_memory,
            memory_change_from_baseline: difference(now.allocated, state.baseline.allocated_memory),
            function_summaries: state.totals.summaries(),
            monitoring_active,
            snapshots_collected: state.snapshots.len(),
        }
    }

    /// Forgets all results, snapshots, statistics and what was seen of leaks, and takes a new baseline. Monitoring
    /// goes on; calls that are open will be counted when they end.
    pub fn clear_results(&self) {
        let peak = Arc::new(self.shared.looks.watch());
        let now = self.shared.looks.read();
        let baseline = baseline(&self.shared.looks, &now);
        if let Some(leaks) = &self.leaks {
            leaks.clear();
        }
        let mut state = lock(&self.shared.state);
        let State { results, snapshots, totals, .. } = &mut *state;
        results.clear();
        snapshots.clear();
        totals.clear(now.counts);
        state.baseline = baseline;
        let before = std::mem::replace(&mut state.peak, peak);
        drop(state);
        // With nothing locked, for it is code of others.
        drop(before);
    }
}

impl Shared {
    fn snapshot(&self, operation: Operation, time_us: i64, now: &Reading, high: &Reading) -> MemorySnapshot {
        let mut snapshot =
            MemorySnapshot::new(operation, self.looks.source.info().device_id, time_us, now, high);
        if self.options.collect_stack_traces
            && matches!(snapshot.operation, Operation::Before(_) | Operation::After(_))
        {
            snapshot.stack_trace = self.stacks.capture().map(|stack| self.frames(stack));
        }
        snapshot
    }

    fn frames(&self, stack: CapturedStack) -> Arc<[SourceFrame]> {
        self.stacks.frames(stack).into()
    }

    fn keep(&self, snapshot: MemorySnapshot) {
        push_bounded(&mut lock(&self.state).snapshots, snapshot, self.options.max_snapshots);
    }

    /// A call has begun, at these counts.
    fn begin(&self, counts: Option<Counts>) {
        lock(&self.state).totals.begin(counts);
    }

    /// A call has ended, at these counts.
    fn end(&self, result: ProfileResult, counts: Option<Counts>) {
        let mut state = lock(&self.state);
        state.totals.end(&result, counts);
        push_bounded(&mut state.results, result, self.options.max_results);
    }
}

/// Appends an item and forgets the oldest where there are more than `most`.
fn push_bounded<T>(items: &mut VecDeque<T>, item: T, most: usize) {
    items.push_back(item);
    while items.len() > most {
        items.pop_front();
    }
}

fn baseline(looks: &Looks, now: &Reading) -> MemorySnapshot {
    MemorySnapshot::new(Operation::Baseline, looks.source.info().device_id, now_us(), now, now)
}

/// The error that was returned.
fn error_in_words<T, E: Display>(returned: &Result<T, E>) -> Option<String> {
    returned.as_ref().err().map(E::to_string)
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
