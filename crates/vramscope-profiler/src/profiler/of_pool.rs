//! [`PoolProfiler`]: a profiler of a pool, without missing numbers.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use vramscope_allocator::{MemoryPool, SourceFrame};

use super::{
    CallOutcome, CallSummary, GpuMemoryProfiler, ProfileContext, ProfileResult, ProfileSummary,
    ProfilerError, ProfilerOptions, ThreadUse,
};
use crate::snapshot::{MemorySnapshot, Operation};
use crate::source::{DeviceSpec, PoolSource, SelectError};

/// A [`GpuMemoryProfiler`] of one device of a pool. It derefs to one and has the same methods. A pool provides all numbers, so its results
/// return them without an `Option`: see [`OfPool`].
///
/// ```
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::PoolProfiler;
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
/// let profiler = PoolProfiler::new(&pool, "cuda:0")?;
/// let (weights, result) = profiler.try_profile_function("load", || {
///     let _staging = pool.malloc(3_000_000)?;
///     pool.malloc(1_000_000)
/// })?;
/// assert_eq!(result.peak_memory_usage(), 4_000_768);
/// assert_eq!(result.memory_diff(), 1_000_448);
/// assert_eq!(profiler.get_summary().function("load").unwrap().peak_memory(), 4_000_768);
/// # drop(weights);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A clone is the same profiler.
#[derive(Clone)]
pub struct PoolProfiler {
    profiler: Arc<GpuMemoryProfiler>,
}

/// A result, snapshot or summary of a [`PoolProfiler`], with a method for each field of `T`. In `T` a number is an `Option`, because other
/// sources may not provide it. A pool provides all numbers, so the methods return plain numbers. [`as_inner`](Self::as_inner) returns the
/// `T`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct OfPool<T>(T);

impl PoolProfiler {
    /// Profiles one device of `pool`: its id, `"cuda:0"`, or [`DeviceSpec::Current`].
    ///
    /// # Errors
    /// The pool has no such device.
    pub fn new<D>(pool: &MemoryPool, device: D) -> Result<Self, ProfilerError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        Self::with_options(pool, device, ProfilerOptions::default())
    }

    /// Like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// The pool has no such device, or a limit is 0.
    pub fn with_options<D>(
        pool: &MemoryPool,
        device: D,
        options: ProfilerOptions,
    ) -> Result<Self, ProfilerError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        let source = PoolSource::new(pool, device)?;
        Ok(Self { profiler: Arc::new(GpuMemoryProfiler::with_options(source, options)?) })
    }

    /// See [`GpuMemoryProfiler::profile_function`].
    pub fn profile_function<R>(&self, name: &str, f: impl FnOnce() -> R) -> (R, OfPool<ProfileResult>) {
        let (value, result) = self.profiler.profile_function(name, f);
        (value, OfPool(result))
    }

    /// See [`GpuMemoryProfiler::try_profile_function`].
    ///
    /// # Errors
    /// The error of `f`.
    pub fn try_profile_function<T, E: Display>(
        &self,
        name: &str,
        f: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, OfPool<ProfileResult>), E> {
        self.profiler.try_profile_function(name, f).map(|(value, result)| (value, OfPool(result)))
    }

    /// See [`GpuMemoryProfiler::profile_future`].
    pub async fn profile_future<F: Future>(
        &self,
        name: &str,
        future: F,
    ) -> (F::Output, OfPool<ProfileResult>) {
        let (value, result) = self.profiler.profile_future(name, future).await;
        (value, OfPool(result))
    }

    /// See [`GpuMemoryProfiler::try_profile_future`].
    ///
    /// # Errors
    /// The error of the future.
    pub async fn try_profile_future<T, E: Display>(
        &self,
        name: &str,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<(T, OfPool<ProfileResult>), E> {
        let (value, result) = self.profiler.try_profile_future(name, future).await?;
        Ok((value, OfPool(result)))
    }

    /// See [`GpuMemoryProfiler::profile_context`].
    pub fn profile_context(&self, name: &str) -> OfPool<ProfileContext<'_>> {
        OfPool(self.profiler.profile_context(name))
    }

    /// See [`GpuMemoryProfiler::results`].
    pub fn results(&self) -> Vec<OfPool<ProfileResult>> {
        self.profiler.results().into_iter().map(OfPool).collect()
    }

    /// See [`GpuMemoryProfiler::last_result`].
    pub fn last_result(&self) -> Option<OfPool<ProfileResult>> {
        self.profiler.last_result().map(OfPool)
    }

    /// See [`GpuMemoryProfiler::snapshot`].
    pub fn snapshot(&self) -> OfPool<MemorySnapshot> {
        OfPool(self.profiler.snapshot())
    }

    /// See [`GpuMemoryProfiler::snapshots`].
    pub fn snapshots(&self) -> Vec<OfPool<MemorySnapshot>> {
        self.profiler.snapshots().into_iter().map(OfPool).collect()
    }

    /// See [`GpuMemoryProfiler::baseline`].
    pub fn baseline(&self) -> OfPool<MemorySnapshot> {
        OfPool(self.profiler.baseline())
    }

    /// See [`GpuMemoryProfiler::get_summary`].
    pub fn get_summary(&self) -> OfPool<ProfileSummary> {
        OfPool(self.profiler.get_summary())
    }
}

impl Deref for PoolProfiler {
    type Target = GpuMemoryProfiler;

    fn deref(&self) -> &GpuMemoryProfiler {
        &self.profiler
    }
}

impl From<PoolProfiler> for Arc<GpuMemoryProfiler> {
    fn from(profiler: PoolProfiler) -> Self {
        profiler.profiler
    }
}

impl<T> OfPool<T> {
    /// Returns the `T` with optional numbers.
    pub fn as_inner(&self) -> &T {
        &self.0
    }

    /// Returns the `T` with optional numbers.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: Display> Display for OfPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Unwraps a number of a pool. It is always present: [`PoolSource`] reads the pool's counters, never fails, and fills every number that
/// [`OfPool`] returns. Other sources, which share the type, may not provide the number. This is the only place that checks it.
fn known<N>(number: Option<N>) -> N {
    let Some(number) = number else { unreachable!("a pool knows all of its numbers") };
    number
}

impl OfPool<ProfileContext<'_>> {
    /// See [`ProfileContext::finish`].
    pub fn finish(self) -> OfPool<ProfileResult> {
        OfPool(self.0.finish())
    }

    /// See [`ProfileContext::fail`].
    pub fn fail(self, error: impl Display) -> OfPool<ProfileResult> {
        OfPool(self.0.fail(error))
    }
}

impl OfPool<ProfileResult> {
    /// Returns the name of the function or code block.
    pub fn function_name(&self) -> &str {
        &self.0.function_name
    }

    /// Returns the duration of the call.
    pub fn execution_time(&self) -> Duration {
        self.0.execution_time
    }

    /// Returns how the call ended.
    pub fn outcome(&self) -> &CallOutcome {
        &self.0.outcome
    }

    /// Returns the message of the call's error or panic, if any.
    pub fn error(&self) -> Option<&str> {
        self.0.error()
    }

    /// Returns the number of calls of the same profiler around it on the same thread; 0 is outermost.
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    /// Returns the number of blocks allocated during the call; `None` if allocations are not tracked.
    pub fn allocations_created(&self) -> Option<u64> {
        self.0.allocations_created
    }

    /// Returns the number of blocks freed during the call; `None` if allocations are not tracked.
    pub fn allocations_freed(&self) -> Option<u64> {
        self.0.allocations_freed
    }

    /// Returns the thread use of the call; `None` if allocations are not tracked.
    pub fn thread(&self) -> Option<ThreadUse> {
        self.0.thread
    }

    /// Returns the memory use at the start of the call.
    pub fn memory_before(&self) -> OfPool<&MemorySnapshot> {
        OfPool(&self.0.memory_before)
    }

    /// Returns the memory use at the end of the call.
    pub fn memory_after(&self) -> OfPool<&MemorySnapshot> {
        OfPool(&self.0.memory_after)
    }

    /// Returns the peaks during the call, each at its own moment.
    pub fn memory_peak(&self) -> OfPool<&MemorySnapshot> {
        OfPool(&self.0.memory_peak)
    }

    /// Returns the bytes allocated on the device during the call, freed or not.
    pub fn memory_allocated(&self) -> u64 {
        known(self.0.memory_allocated)
    }

    /// Returns the bytes freed on the device during the call.
    pub fn memory_freed(&self) -> u64 {
        known(self.0.memory_freed)
    }

    /// Returns the allocated bytes after the call minus the allocated bytes before it.
    pub fn memory_diff(&self) -> i64 {
        known(self.0.memory_diff())
    }

    /// Returns the peak of allocated bytes during the call, including bytes that were live before.
    pub fn peak_memory_usage(&self) -> u64 {
        known(self.0.peak_memory_usage())
    }

    /// Returns the bytes by which that peak exceeds the allocated bytes at the start of the call.
    pub fn peak_above_start(&self) -> u64 {
        known(self.0.peak_above_start())
    }
}

impl<S: Borrow<MemorySnapshot>> OfPool<S> {
    /// Returns the time of the snapshot, in microseconds since the Unix epoch.
    pub fn timestamp_us(&self) -> i64 {
        self.0.borrow().timestamp_us
    }

    /// Returns the reason for the snapshot.
    pub fn operation(&self) -> &Operation {
        &self.0.borrow().operation
    }

    /// Returns the id of the pool's device.
    pub fn device_id(&self) -> i32 {
        known(self.0.borrow().device_id)
    }

    /// Returns the resident host memory of this process, as [`MemorySnapshot::cpu_memory`]; `None` if it is not tracked.
    pub fn cpu_memory(&self) -> Option<u64> {
        self.0.borrow().cpu_memory
    }

    /// Returns the stack, as [`MemorySnapshot::stack_trace`].
    pub fn stack_trace(&self) -> Option<&[SourceFrame]> {
        self.0.borrow().stack_trace.as_deref()
    }

    /// Returns the bytes of allocated blocks.
    pub fn allocated_memory(&self) -> u64 {
        known(self.0.borrow().allocated_memory)
    }

    /// Returns the bytes allocated from the device.
    pub fn reserved_memory(&self) -> u64 {
        known(self.0.borrow().reserved_memory)
    }

    /// Returns the allocated bytes, plus bytes that were freed but still wait for another stream.
    pub fn active_memory(&self) -> u64 {
        known(self.0.borrow().active_memory)
    }

    /// Returns the cached bytes: reserved but not active. In the snapshot of a peak, at the moment of peak allocated bytes.
    pub fn inactive_memory(&self) -> u64 {
        known(self.0.borrow().inactive_memory)
    }

    /// Returns the bytes that callers requested.
    pub fn requested_memory(&self) -> u64 {
        known(self.0.borrow().requested_memory)
    }

    /// Returns the bytes used on the device by all processes.
    pub fn device_used_memory(&self) -> u64 {
        known(self.0.borrow().device_used_memory)
    }

    /// Returns the peak of allocated bytes, as [`MemorySnapshot::max_memory_allocated`].
    pub fn max_memory_allocated(&self) -> u64 {
        known(self.0.borrow().max_memory_allocated)
    }

    /// Returns the peak of reserved bytes, as [`MemorySnapshot::max_memory_reserved`].
    pub fn max_memory_reserved(&self) -> u64 {
        known(self.0.borrow().max_memory_reserved)
    }
}

impl OfPool<ProfileSummary> {
    /// Returns the device, such as `cuda:0`.
    pub fn device(&self) -> &str {
        &self.0.device
    }

    /// Returns the number of profiled names.
    pub fn total_functions_profiled(&self) -> usize {
        self.0.total_functions_profiled
    }

    /// Returns the number of ended calls, including nested calls.
    pub fn total_function_calls(&self) -> u64 {
        self.0.total_function_calls
    }

    /// Returns the seconds spent in ended outermost calls, summed over all threads.
    pub fn total_execution_time(&self) -> f64 {
        self.0.total_execution_time
    }

    /// Whether monitoring is running.
    pub fn monitoring_active(&self) -> bool {
        self.0.monitoring_active
    }

    /// Returns the number of kept monitoring snapshots.
    pub fn snapshots_collected(&self) -> usize {
        self.0.snapshots_collected
    }

    /// Returns the summary of all calls of one name; `None` if there was none.
    pub fn function(&self, name: &str) -> Option<OfPool<&CallSummary>> {
        self.0.function_summaries.get(name).map(OfPool)
    }

    /// Returns the names of all functions, sorted, each with the summary of its calls.
    pub fn functions(&self) -> impl Iterator<Item = (&str, OfPool<&CallSummary>)> {
        self.0.function_summaries.iter().map(|(name, summary)| (&**name, OfPool(summary)))
    }

    /// Returns the bytes allocated on the device while any call was open.
    pub fn total_memory_allocated(&self) -> u64 {
        known(self.0.total_memory_allocated)
    }

    /// Returns the bytes freed on the device while any call was open.
    pub fn total_memory_freed(&self) -> u64 {
        known(self.0.total_memory_freed)
    }

    /// Returns the bytes allocated minus the bytes freed while any call was open.
    pub fn net_memory_change(&self) -> i64 {
        known(self.0.net_memory_change)
    }

    /// Returns the peak of allocated bytes since the baseline, inside or outside calls.
    pub fn peak_memory_usage(&self) -> u64 {
        known(self.0.peak_memory_usage)
    }

    /// Returns the currently allocated bytes.
    pub fn current_memory_usage(&self) -> u64 {
        known(self.0.current_memory_usage)
    }

    /// Returns the bytes allocated at the baseline.
    pub fn baseline_memory_usage(&self) -> u64 {
        known(self.0.baseline_memory_usage)
    }

    /// Returns the currently allocated bytes minus the allocated bytes at the baseline.
    pub fn memory_change_from_baseline(&self) -> i64 {
        known(self.0.memory_change_from_baseline)
    }
}

impl OfPool<&CallSummary> {
    /// Returns the number of ended calls.
    pub fn call_count(&self) -> u64 {
        self.0.call_count
    }

    /// Returns the number of calls that returned an error or panicked.
    pub fn failed_calls(&self) -> u64 {
        self.0.failed_calls
    }

    /// Returns the seconds spent in all calls.
    pub fn total_time(&self) -> f64 {
        self.0.total_time
    }

    /// Returns the average seconds per call.
    pub fn avg_time(&self) -> f64 {
        self.0.avg_time
    }

    /// Returns the bytes allocated on the device during its calls.
    pub fn total_memory_allocated(&self) -> u64 {
        known(self.0.total_memory_allocated)
    }

    /// Returns the average bytes allocated on the device per call.
    pub fn avg_memory_allocated(&self) -> f64 {
        known(self.0.avg_memory_allocated)
    }

    /// Returns the highest peak of its calls, in bytes.
    pub fn peak_memory(&self) -> u64 {
        known(self.0.peak_memory)
    }
}
