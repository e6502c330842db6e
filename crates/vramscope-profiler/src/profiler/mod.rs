//! [`GpuMemoryProfiler`]: the memory of functions and code blocks.

pub mod attribute;
mod future;
mod global;
mod of_pool;
mod peak_stacks;
mod result;
mod scope;
mod source_reader;
mod summary;
mod text;
mod threads;

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;
use vramscope_allocator::{CapturedStack, MemoryPool, Process, SourceFrame, StackRecorder};

pub use global::{global_profiler, set_global_profiler, take_global_profiler};
pub use of_pool::{OfPool, PoolProfiler};
pub use result::{CallOutcome, ProfileResult};
pub use scope::ProfileContext;
pub use summary::{CallSummary, CallTotals, EndedCall, ProfileSummary};
pub use threads::ThreadUse;

use crate::leaks::{CallLeakSuspect, LeakDetector};
use crate::monitor::{Monitor, MonitorError};
use crate::snapshot::{MemorySnapshot, Operation, now_us};
use crate::source::{
    Counts, DeviceSpec, MemorySource, Observation, PoolSource, Reading, SelectError, SourceError, SourceInfo,
};
use peak_stacks::PeakStacks;
use source_reader::{MONITOR_HOLDS, Peak, SourceReader};
use threads::ThreadTally;
use vramscope_basics::lock;

/// Profiles functions and code blocks, and monitors in between: gpumemprof's `GPUMemoryProfiler`, over any [`MemorySource`].
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
/// # Differences from gpumemprof
/// - Every call has its own exact peak, with nested calls and with other threads, and the program's peaks are not reset. gpumemprof resets
///   the device's peak for each call, which loses the outer call's peak.
/// - A call that fails or panics has its true peak and its error.
/// - The function's return value is passed to the caller.
/// - Bytes allocated and freed are the sums of all allocations and of all frees. Unknown numbers are `None`.
/// - The device is not synchronized. Counts come from the pool, not from a search of the garbage collector for tensors.
/// - `cpu_memory` is the resident memory of this process; in gpumemprof it is the memory of the whole machine.
/// - The number of results and of snapshots is limited, and the oldest are dropped first. The summary still counts all calls.
///
/// Any thread may use it. The summary has a row per name, so use few names: `step`, not `step 4711`.
pub struct GpuMemoryProfiler {
    shared: Arc<ProfilerShared>,
    leaks: Option<LeakDetector>,
    monitor: Mutex<Option<Monitor>>,
    tally: Option<Observation>,
    /// Captures the stacks of peaks, if stacks are collected.
    _at_peaks: Option<Observation>,
}

/// Options of a profiler: gpumemprof's arguments, and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilerOptions {
    /// Counts allocated and freed blocks, and each call's thread use (gpumemprof's `track_tensors`, which searches the garbage collector).
    /// A malloc or a free takes about 40 ns longer.
    pub track_allocations: bool,
    /// Reads this process's host memory too.
    pub track_cpu_memory: bool,
    /// Records stacks. The snapshots before and after a call have the call's stack; the snapshot of its peak has the stack of the
    /// allocation that reached it. Symbols are resolved when a call begins or ends, which may take seconds the first time.
    pub collect_stack_traces: bool,
    /// Detects leaks across calls of the same name; see [`GpuMemoryProfiler::leaks`]. A malloc inside a call takes about a microsecond
    /// longer.
    pub find_leaks: bool,
    /// Maximum number of kept snapshots, at least 1.
    pub max_snapshots: usize,
    /// Maximum number of kept results, at least 1.
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

/// The reason why a profiler was not created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfilerError {
    /// There is no such device.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A limit is 0, so nothing would be kept.
    #[error("{0} is 0, so none would be kept; set it to 1 or more")]
    NothingKept(&'static str),
    /// Leak detection needs a source that reports allocations.
    #[error("{0} does not report allocations, so leaks cannot be detected; profile a pool")]
    NoAllocations(String),
}

/// The state that a profiler shares with its monitor's thread.
struct ProfilerShared {
    /// Distinguishes this profiler's calls from other profilers' calls on the same thread.
    id: u64,
    /// The process of the profiler: in a forked process, its locks may never be released.
    process: Process,
    source_reader: SourceReader,
    options: ProfilerOptions,
    stacks: Arc<StackRecorder>,
    peak_stacks: Option<Arc<PeakStacks>>,
    state: Mutex<ProfilerState>,
}

struct ProfilerState {
    results: VecDeque<ProfileResult>,
    snapshots: VecDeque<MemorySnapshot>,
    totals: CallTotals,
    baseline: MemorySnapshot,
    /// The peaks since the baseline. Shared, so that they can be read without a lock: reading may run code of the source.
    peak: Arc<Peak>,
}

impl GpuMemoryProfiler {
    /// Profiles one device of a pool: its id, `"cuda:0"`, or [`DeviceSpec::Current`].
    ///
    /// # Errors
    /// The pool has no such device.
    pub fn on_pool<D>(pool: &MemoryPool, device: D) -> Result<Self, ProfilerError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        Self::new(PoolSource::new(pool, device)?)
    }

    /// Profiles `source`.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn new(source: Arc<dyn MemorySource>) -> Result<Self, ProfilerError> {
        Self::with_options(source, ProfilerOptions::default())
    }

    /// Like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// The source cannot be read, leak detection is on for a source that does not report allocations, or a limit is 0.
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
        let source_reader = SourceReader::new(source, options.track_cpu_memory);
        let state = ProfilerState {
            results: VecDeque::new(),
            snapshots: VecDeque::new(),
            totals: CallTotals::default(),
            peak: Arc::new(source_reader.watch()),
            baseline: baseline(&source_reader, &source_reader.read()),
        };
        let stacks = Arc::new(StackRecorder::new());
        let peak_stacks = options.collect_stack_traces.then(|| PeakStacks::new(Arc::clone(&stacks)));
        let at_peaks =
            peak_stacks.as_ref().and_then(|stacks| source_reader.source.observe(Arc::clone(stacks) as _));
        let (process, state) = (Process::this(), Mutex::new(state));
        let shared = ProfilerShared { id, process, source_reader, options, stacks, peak_stacks, state };
        Ok(Self { shared: Arc::new(shared), leaks, monitor: Mutex::default(), tally, _at_peaks: at_peaks })
    }

    /// Returns the name and the device of the source.
    pub fn source(&self) -> &SourceInfo {
        self.shared.source_reader.source.info()
    }

    // ---- calls ----

    /// Calls `f`, and returns its value together with its memory use. If it panics, the panic is passed on, and the result is the last of
    /// [`results`](Self::results).
    pub fn profile_function<R>(&self, name: &str, f: impl FnOnce() -> R) -> (R, ProfileResult) {
        self.profile_judged(name.into(), f, |_| None)
    }

    /// Like [`profile_function`](Self::profile_function). `error` returns the message if the value of `f` is an error.
    fn profile_judged<R>(
        &self,
        name: Arc<str>,
        f: impl FnOnce() -> R,
        error: impl FnOnce(&R) -> Option<String>,
    ) -> (R, ProfileResult) {
        let context = ProfileContext::begin(self, name);
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(value) => {
                let outcome = error(&value).map_or(CallOutcome::Returned, CallOutcome::Failed);
                let result = context.end(outcome);
                (value, result)
            }
            Err(panic) => {
                context.end(CallOutcome::Panicked(message(panic.as_ref())));
                resume_unwind(panic)
            }
        }
    }

    /// Like [`profile_function`](Self::profile_function), for a function that may fail.
    ///
    /// # Errors
    /// The error of `f`. The result, which contains the error, is then the last of [`results`](Self::results).
    pub fn try_profile_function<T, E: Display>(
        &self,
        name: &str,
        f: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, ProfileResult), E> {
        let (returned, result) = self.profile_judged(name.into(), f, error_in_words);
        returned.map(|value| (value, result))
    }

    /// Returns a function that calls `f` and profiles every call (gpumemprof's decorator). Several threads may call it at the same time if
    /// `f` allows this, and it may call itself. Pass several arguments as a tuple, and none as `()`.
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
    /// A borrow in an argument lasts as long as the returned function. The attribute `#[profile]` of the crate `vramscope` profiles a
    /// function with any arguments. For a closure that changes its captures, use [`profile_function`](Self::profile_function).
    pub fn wrap<'p, A, R, F: Fn(A) -> R>(&'p self, name: &str, f: F) -> impl Fn(A) -> R + use<'p, A, R, F> {
        let name: Arc<str> = name.into();
        move |argument| self.profile_judged(Arc::clone(&name), || f(argument), |_| None).0
    }

    /// Like [`wrap`](Self::wrap), for a function that may fail. The result of a failed call contains the error.
    pub fn try_wrap<'p, A, T, E: Display, F: Fn(A) -> Result<T, E>>(
        &'p self,
        name: &str,
        f: F,
    ) -> impl Fn(A) -> Result<T, E> + use<'p, A, T, E, F> {
        let name: Arc<str> = name.into();
        move |argument| self.profile_judged(Arc::clone(&name), || f(argument), error_in_words).0
    }

    /// Profiles the code until the guard is dropped. The guard stays on its thread.
    pub fn profile_context(&self, name: &str) -> ProfileContext<'_> {
        ProfileContext::begin(self, name.into())
    }

    // ---- monitoring ----

    /// Takes a snapshot every `interval`, on a separate thread, the first immediately. On a pool, each has the exact peaks since the
    /// previous one, so no peak between two snapshots is missed.
    ///
    /// # Errors
    /// Monitoring is already running (gpumemprof ignores a second start and its interval), the interval is shorter than a microsecond, or
    /// the system cannot start a thread.
    pub fn start_monitoring(&self, interval: Duration) -> Result<(), MonitorError> {
        let running = |monitor: &Option<Monitor>| {
            let running = monitor.as_ref().filter(|m| m.is_running())?;
            Some(MonitorError::Running { interval: running.interval() })
        };
        if let Some(error) = running(&lock(&self.monitor)) {
            return Err(error);
        }
        let shared = Arc::clone(&self.shared);
        let source = Arc::clone(&self.shared.source_reader.source);
        // Without a lock, because the source's code runs.
        let started = Monitor::start(source, interval, move |sample| {
            if let Ok(sample) = sample {
                let now = shared.source_reader.seen(sample.tick.now, MONITOR_HOLDS);
                let high = sample.tick.high;
                shared.keep(shared.snapshot(Operation::Monitor, sample.time_us, &now, &high));
            }
        })?;
        let mut monitor = lock(&self.monitor);
        // Another thread may have started monitoring in the meantime.
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

    /// Takes a last snapshot and stops monitoring. Does nothing if it is not running.
    pub fn stop_monitoring(&self) {
        let monitor = lock(&self.monitor).take();
        drop(monitor);
    }

    // ---- results ----

    /// Returns the current memory use, with the peaks since the baseline.
    pub fn snapshot(&self) -> MemorySnapshot {
        let now = self.shared.source_reader.read();
        let peak = Arc::clone(&lock(&self.shared.state).peak);
        let peak = peak.so_far();
        self.shared.snapshot(Operation::Now, now_us(), &now, &peak.max(now))
    }

    /// Returns the results of calls in the order in which they ended: a nested call precedes the call around it.
    pub fn results(&self) -> Vec<ProfileResult> {
        lock(&self.shared.state).results.iter().cloned().collect()
    }

    /// Returns the result of the call that ended last.
    pub fn last_result(&self) -> Option<ProfileResult> {
        lock(&self.shared.state).results.back().cloned()
    }

    /// Returns the snapshots of monitoring, oldest first.
    pub fn snapshots(&self) -> Vec<MemorySnapshot> {
        lock(&self.shared.state).snapshots.iter().cloned().collect()
    }

    /// Returns the snapshot for comparisons, taken when the profiler was created or its results were last cleared.
    pub fn baseline(&self) -> MemorySnapshot {
        lock(&self.shared.state).baseline.clone()
    }

    /// Returns the lines whose blocks accumulate across calls of the same name. Empty unless [`find_leaks`](ProfilerOptions::find_leaks) is
    /// set.
    pub fn leaks(&self) -> Vec<CallLeakSuspect> {
        self.leaks.as_ref().map(LeakDetector::suspects).unwrap_or_default()
    }

    /// Returns the summary of all calls (gpumemprof's `get_summary`).
    pub fn get_summary(&self) -> ProfileSummary {
        let now = self.shared.source_reader.read();
        let peak = Arc::clone(&lock(&self.shared.state).peak);
        let highest = peak.so_far().max(now);
        let device = self.source().device();
        let monitoring_active = lock(&self.monitor).as_ref().is_some_and(Monitor::is_running);
        let state = lock(&self.shared.state);
        let difference =
            |a: Option<u64>, b: Option<u64>| Some(a?.cast_signed().wrapping_sub(b?.cast_signed()));
        let used = state.totals.used(now.counts);
        let (allocated, freed) = (used.map(|used| used.0), used.map(|used| used.1));
        let function_summaries = state.totals.summaries();
        ProfileSummary {
            device,
            total_functions_profiled: function_summaries.len(),
            total_function_calls: state.totals.calls(),
            total_execution_time: state.totals.time().as_secs_f64(),
            total_memory_allocated: allocated,
            total_memory_freed: freed,
            net_memory_change: difference(allocated, freed),
            peak_memory_usage: highest.allocated,
            peak_is_exact: peak.is_exact(),
            current_memory_usage: now.allocated,
            baseline_memory_usage: state.baseline.allocated_memory,
            memory_change_from_baseline: difference(now.allocated, state.baseline.allocated_memory),
            function_summaries,
            monitoring_active,
            snapshots_collected: state.snapshots.len(),
        }
    }

    /// Drops all results, snapshots, sums and leak counts, and takes a new baseline. Monitoring continues, and open calls are counted when
    /// they end.
    pub fn clear_results(&self) {
        let peak = Arc::new(self.shared.source_reader.watch());
        let now = self.shared.source_reader.read();
        let baseline = baseline(&self.shared.source_reader, &now);
        if let Some(leaks) = &self.leaks {
            leaks.clear();
        }
        let mut state = lock(&self.shared.state);
        let ProfilerState { results, snapshots, totals, .. } = &mut *state;
        results.clear();
        snapshots.clear();
        totals.clear(now.counts);
        state.baseline = baseline;
        let before = std::mem::replace(&mut state.peak, peak);
        drop(state);
        // Without a lock, because dropping it may run the source's code.
        drop(before);
    }
}

impl ProfilerShared {
    fn snapshot(&self, operation: Operation, time_us: i64, now: &Reading, high: &Reading) -> MemorySnapshot {
        let mut snapshot =
            MemorySnapshot::new(operation, self.source_reader.source.info().device_id, time_us, now, high);
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

    /// Counts a started call, with the source's counts at its start.
    fn begin(&self, counts: Option<Counts>) {
        lock(&self.state).totals.begin(counts);
    }

    /// Counts and keeps an ended call, with the source's counts at its end.
    fn end(&self, result: ProfileResult, counts: Option<Counts>) {
        let mut state = lock(&self.state);
        let call = EndedCall {
            function_name: &result.function_name,
            depth: result.depth,
            execution_time: result.execution_time,
            failed: result.error().is_some(),
            memory_allocated: result.memory_allocated,
            peak_memory: result.peak_memory_usage(),
        };
        state.totals.end(call, counts);
        push_bounded(&mut state.results, result, self.options.max_results);
    }
}

/// Appends an item, and drops the oldest items beyond `most`.
fn push_bounded<T>(items: &mut VecDeque<T>, item: T, most: usize) {
    items.push_back(item);
    while items.len() > most {
        items.pop_front();
    }
}

fn baseline(source_reader: &SourceReader, now: &Reading) -> MemorySnapshot {
    MemorySnapshot::new(Operation::Baseline, source_reader.source.info().device_id, now_us(), now, now)
}

/// Returns the message of a returned error.
fn error_in_words<T, E: Display>(returned: &Result<T, E>) -> Option<String> {
    returned.as_ref().err().map(E::to_string)
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
