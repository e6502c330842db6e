//! [`PoolProfiler`]: a profiler of a pool, whose numbers are all known.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use vramscope_allocator::{MemoryPool, SourceFrame};

use super::{
    FunctionSummary, GpuMemoryProfiler, Outcome, ProfileContext, ProfileResult, ProfileSummary,
    ProfilerError, ProfilerOptions, ThreadUse,
};
use crate::snapshot::{MemorySnapshot, Operation};
use crate::source::{DeviceSpec, PoolSource, SelectError};

/// A [`GpuMemoryProfiler`] of one device of a pool. It derefs to one and has the same methods; but a pool knows all of its
/// numbers, so that the results give them without an `Option`: see [`OfPool`].
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

/// A result, snapshot or summary of a [`PoolProfiler`]. It has a method for each field of `T`. In `T` a number is an `Option`,
/// because other sources may not know it; a pool knows all of them, and the methods return plain numbers.
/// [`as_inner`](Self::as_inner) is the `T` itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct OfPool<T>(T);

impl PoolProfiler {
    /// Profiles the device of `pool` that `device` names: its number, `"cuda:0"`, or [`DeviceSpec::Current`].
    ///
    /// # Errors
    /// Where the pool has no such device.
    pub fn new<D>(pool: &MemoryPool, device: D) -> Result<Self, ProfilerError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        Self::with_options(pool, device, ProfilerOptions::default())
    }

    /// As [`new`](Self::new), with options.
    ///
    /// # Errors
    /// Where the pool has no such device, or a bound is 0.
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

    /// As [`GpuMemoryProfiler::profile_function`].
    pub fn profile_function<R>(&self, name: &str, f: impl FnOnce() -> R) -> (R, OfPool<ProfileResult>) {
        let (value, result) = self.profiler.profile_function(name, f);
        (value, OfPool(result))
    }

    /// As [`GpuMemoryProfiler::try_profile_function`].
    ///
    /// # Errors
    /// Those of `f`.
    pub fn try_profile_function<T, E: Display>(
        &self,
        name: &str,
        f: impl FnOnce() -> Result<T, E>,
    ) -> Result<(T, OfPool<ProfileResult>), E> {
        self.profiler.try_profile_function(name, f).map(|(value, result)| (value, OfPool(result)))
    }

    /// As [`GpuMemoryProfiler::profile_future`].
    pub async fn profile_future<F: Future>(
        &self,
        name: &str,
        future: F,
    ) -> (F::Output, OfPool<ProfileResult>) {
        let (value, result) = self.profiler.profile_future(name, future).await;
        (value, OfPool(result))
    }

    /// As [`GpuMemoryProfiler::try_profile_future`].
    ///
    /// # Errors
    /// Those of the future.
    pub async fn try_profile_future<T, E: Display>(
        &self,
        name: &str,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<(T, OfPool<ProfileResult>), E> {
        let (value, result) = self.profiler.try_profile_future(name, future).await?;
        Ok((value, OfPool(result)))
    }

    /// As [`GpuMemoryProfiler::profile_context`].
    pub fn profile_context(&self, name: &str) -> OfPool<ProfileContext<'_>> {
        OfPool(self.profiler.profile_context(name))
    }

    /// As [`GpuMemoryProfiler::results`].
    pub fn results(&self) -> Vec<OfPool<ProfileResult>> {
        self.profiler.results().into_iter().map(OfPool).collect()
    }

    /// As [`GpuMemoryProfiler::last_result`].
    pub fn last_result(&self) -> Option<OfPool<ProfileResult>> {
        self.profiler.last_result().map(OfPool)
    }

    /// As [`GpuMemoryProfiler::snapshot`].
    pub fn snapshot(&self) -> OfPool<MemorySnapshot> {
        OfPool(self.profiler.snapshot())
    }

    /// As [`GpuMemoryProfiler::snapshots`].
    pub fn snapshots(&self) -> Vec<OfPool<MemorySnapshot>> {
        self.profiler.snapshots().into_iter().map(OfPool).collect()
    }

    /// As [`GpuMemoryProfiler::baseline`].
    pub fn baseline(&self) -> OfPool<MemorySnapshot> {
        OfPool(self.profiler.baseline())
    }

    /// As [`GpuMemoryProfiler::get_summary`].
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
    /// The `T` whose numbers are options.
    pub fn as_inner(&self) -> &T {
        &self.0
    }

    /// The `T` whose numbers are options.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: Display> Display for OfPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of a pool. It is always known, because [`PoolSource`] reads its numbers from the pool's own counters: it
/// never fails, and leaves none of those that [`OfPool`] gives out. The type is shared with sources that may not know it,
/// and so it is checked here, in one place.
fn known<N>(number: Option<N>) -> N {
    let Some(number) = number else { unreachable!("a pool knows all of its numbers") };
    number
}

impl OfPool<ProfileContext<'_>> {
    /// As [`ProfileContext::finish`].
    pub fn finish(self) -> OfPool<ProfileResult> {
        OfPool(self.0.finish())
    }

    /// As [`ProfileContext::fail`].
    pub fn fail(self, error: impl Display) -> OfPool<ProfileResult> {
        OfPool(self.0.fail(error))
    }
}

impl OfPool<ProfileResult> {
    /// The name of the function or block.
    pub fn function_name(&self) -> &str {
        &self.0.function_name
    }

    /// How long the call took.
    pub fn execution_time(&self) -> Duration {
        self.0.execution_time
    }

    /// How the call ended.
    pub fn outcome(&self) -> &Outcome {
        &self.0.outcome
    }

    /// The message of the call's error or panic, where there was one.
    pub fn error(&self) -> Option<&str> {
        self.0.error()
    }

    /// How many calls of the same profiler on the same thread it was inside of; 0 is outermost.
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    /// The number of blocks that were allocated while the call ran; `None` where allocations are not tracked.
    pub fn allocations_created(&self) -> Option<u64> {
        self.0.allocations_created
    }

    /// The number of blocks that were freed while the call ran; `None` where allocations are not tracked.
    pub fn allocations_freed(&self) -> Option<u64> {
        self.0.allocations_freed
    }

    /// What the call's own thread did; `None` where allocations are not tracked.
    pub fn thread(&self) -> Option<ThreadUse> {
        self.0.thread
    }

    /// What was in use when the call began.
    pub fn memory_before(&self) -> OfPool<&MemorySnapshot> {
        OfPool(&self.0.memory_before)
    }

    /// What was in use when the call had ended.
    pub fn memory_after(&self) -> OfPool<&MemorySnapshot> {
        OfPool(&self.0.memory_after)
    }

    /// The highest values while the call ran, each at its own moment.
    pub fn memory_peak(&self) -> OfPool<&MemorySnapshot> {
        OfPool(&self.0.memory_peak)
    }

    /// Bytes that were allocated on the device while the call ran, freed or not.
    pub fn memory_allocated(&self) -> u64 {
        known(self.0.memory_allocated)
    }

    /// Bytes that were freed on the device while the call ran.
    pub fn memory_freed(&self) -> u64 {
        known(self.0.memory_freed)
    }

    /// Allocated bytes after the call, minus those before.
    pub fn memory_diff(&self) -> i64 {
        known(self.0.memory_diff())
    }

    /// The highest allocated bytes while the call ran, with what was live before.
    pub fn peak_memory_usage(&self) -> u64 {
        known(self.0.peak_memory_usage())
    }

    /// How many bytes that peak is above what was allocated when the call began.
    pub fn peak_above_start(&self) -> u64 {
        known(self.0.peak_above_start())
    }
}

impl<S: Borrow<MemorySnapshot>> OfPool<S> {
    /// When it was taken, in microseconds since the Unix epoch.
    pub fn timestamp_us(&self) -> i64 {
        self.0.borrow().timestamp_us
    }

    /// Why it was taken.
    pub fn operation(&self) -> &Operation {
        &self.0.borrow().operation
    }

    /// The number of the pool's device.
    pub fn device_id(&self) -> i32 {
        known(self.0.borrow().device_id)
    }

    /// The resident memory of this process on the host, as [`MemorySnapshot::cpu_memory`]; `None` where it is not tracked.
    pub fn cpu_memory(&self) -> Option<u64> {
        self.0.borrow().cpu_memory
    }

    /// The stack, as [`MemorySnapshot::stack_trace`].
    pub fn stack_trace(&self) -> Option<&[SourceFrame]> {
        self.0.borrow().stack_trace.as_deref()
    }

    /// Bytes of blocks handed out.
    pub fn allocated_memory(&self) -> u64 {
        known(self.0.borrow().allocated_memory)
    }

    /// Bytes taken from the device.
    pub fn reserved_memory(&self) -> u64 {
        known(self.0.borrow().reserved_memory)
    }

    /// Bytes allocated, and freed but still waiting for another stream.
    pub fn active_memory(&self) -> u64 {
        known(self.0.borrow().active_memory)
    }

    /// Bytes cached: reserved and not active. In the snapshot of a peak, at the moment at which most was allocated.
    pub fn inactive_memory(&self) -> u64 {
        known(self.0.borrow().inactive_memory)
    }

    /// Bytes callers asked for.
    pub fn requested_memory(&self) -> u64 {
        known(self.0.borrow().requested_memory)
    }

    /// Bytes in use on the device by anyone.
    pub fn device_used_memory(&self) -> u64 {
        known(self.0.borrow().device_used_memory)
    }

    /// The most bytes allocated, as [`MemorySnapshot::max_memory_allocated`].
    pub fn max_memory_allocated(&self) -> u64 {
        known(self.0.borrow().max_memory_allocated)
    }

    /// The most bytes reserved, as [`MemorySnapshot::max_memory_reserved`].
    pub fn max_memory_reserved(&self) -> u64 {
        known(self.0.borrow().max_memory_reserved)
    }
}

impl OfPool<ProfileSummary> {
    /// The device, as `cuda:0`.
    pub fn device(&self) -> &str {
        &self.0.device
    }

    /// The number of names that were profiled.
    pub fn total_functions_profiled(&self) -> usize {
        self.0.total_functions_profiled
    }

    /// The number of calls that ended, with those inside others.
    pub fn total_function_calls(&self) -> u64 {
        self.0.total_function_calls
    }

    /// Seconds spent in outermost calls that ended, summed over all threads.
    pub fn total_execution_time(&self) -> f64 {
        self.0.total_execution_time
    }

    /// Whether monitoring runs.
    pub fn monitoring_active(&self) -> bool {
        self.0.monitoring_active
    }

    /// How many snapshots of monitoring are kept.
    pub fn snapshots_collected(&self) -> usize {
        self.0.snapshots_collected
    }

    /// The summary of all calls of one name; `None` where there was none.
    pub fn function(&self, name: &str) -> Option<OfPool<&FunctionSummary>> {
        self.0.function_summaries.get(name).map(OfPool)
    }

    /// The names of all functions, sorted, each with the summary of its calls.
    pub fn functions(&self) -> impl Iterator<Item = (&str, OfPool<&FunctionSummary>)> {
        self.0.function_summaries.iter().map(|(name, summary)| (&**name, OfPool(summary)))
    }

    /// Bytes allocated on the device while any call was open.
    pub fn total_memory_allocated(&self) -> u64 {
        known(self.0.total_memory_allocated)
    }

    /// Bytes freed on the device while any call was open.
    pub fn total_memory_freed(&self) -> u64 {
        known(self.0.total_memory_freed)
    }

    /// Bytes allocated minus bytes freed while any call was open.
    pub fn net_memory_change(&self) -> i64 {
        known(self.0.net_memory_change)
    }

    /// The highest allocated bytes since the baseline, inside calls or between them.
    pub fn peak_memory_usage(&self) -> u64 {
        known(self.0.peak_memory_usage)
    }

    /// Bytes allocated now.
    pub fn current_memory_usage(&self) -> u64 {
        known(self.0.current_memory_usage)
    }

    /// Bytes allocated at the baseline.
    pub fn baseline_memory_usage(&self) -> u64 {
        known(self.0.baseline_memory_usage)
    }

    /// Bytes allocated now, minus those at the baseline.
    pub fn memory_change_from_baseline(&self) -> i64 {
        known(self.0.memory_change_from_baseline)
    }
}

impl OfPool<&FunctionSummary> {
    /// The number of calls that ended.
    pub fn call_count(&self) -> u64 {
        self.0.call_count
    }

    /// The number of calls that returned an error or panicked.
    pub fn failed_calls(&self) -> u64 {
        self.0.failed_calls
    }

    /// Seconds spent in all calls.
    pub fn total_time(&self) -> f64 {
        self.0.total_time
    }

    /// Seconds spent in a call, on average.
    pub fn avg_time(&self) -> f64 {
        self.0.avg_time
    }

    /// Bytes allocated on the device during its calls.
    pub fn total_memory_allocated(&self) -> u64 {
        known(self.0.total_memory_allocated)
    }

    /// Bytes allocated during one of them, on average.
    pub fn avg_memory_allocated(&self) -> f64 {
        known(self.0.avg_memory_allocated)
    }

    /// The highest peak of one of its calls, in bytes.
    pub fn peak_memory(&self) -> u64 {
        known(self.0.peak_memory)
    }
}
