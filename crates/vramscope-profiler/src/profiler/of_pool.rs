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

/// Defines a method for each of these fields of the inner type, which copies the field.
macro_rules! fields {
    ($inner:ty: $($(#[$doc:meta])* $field:ident: $kind:ty,)*) => {$(
        $(#[$doc])*
        pub fn $field(&self) -> $kind {
            let inner: &$inner = self.0.borrow();
            inner.$field
        }
    )*};
}

/// Like `fields`, for numbers that are optional in the inner type.
macro_rules! numbers {
    ($inner:ty: $($(#[$doc:meta])* $field:ident: $kind:ty,)*) => {$(
        $(#[$doc])*
        pub fn $field(&self) -> $kind {
            let inner: &$inner = self.0.borrow();
            known(inner.$field)
        }
    )*};
}

impl OfPool<ProfileResult> {
    /// Returns the name of the function or code block.
    pub fn function_name(&self) -> &str {
        &self.0.function_name
    }

    /// Returns how the call ended.
    pub fn outcome(&self) -> &CallOutcome {
        &self.0.outcome
    }

    /// Returns the message of the call's error or panic, if any.
    pub fn error(&self) -> Option<&str> {
        self.0.error()
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

    fields! { ProfileResult:
        /// Returns the duration of the call.
        execution_time: Duration,
        /// Returns the number of calls of the same profiler around it on the same thread; 0 is outermost.
        depth: usize,
        /// Returns the number of blocks allocated during the call; `None` if allocations are not tracked.
        allocations_created: Option<u64>,
        /// Returns the number of blocks freed during the call; `None` if allocations are not tracked.
        allocations_freed: Option<u64>,
        /// Returns the thread use of the call; `None` if allocations are not tracked.
        thread: Option<ThreadUse>,
    }

    numbers! { ProfileResult:
        /// Returns the bytes allocated on the device during the call, freed or not.
        memory_allocated: u64,
        /// Returns the bytes freed on the device during the call.
        memory_freed: u64,
    }
}

impl<S: Borrow<MemorySnapshot>> OfPool<S> {
    /// Returns the reason for the snapshot.
    pub fn operation(&self) -> &Operation {
        &self.0.borrow().operation
    }

    /// Returns the stack, as [`MemorySnapshot::stack_trace`].
    pub fn stack_trace(&self) -> Option<&[SourceFrame]> {
        self.0.borrow().stack_trace.as_deref()
    }

    fields! { MemorySnapshot:
        /// Returns the time of the snapshot, in microseconds since the Unix epoch.
        timestamp_us: i64,
        /// Returns the resident host memory of this process, as [`MemorySnapshot::cpu_memory`]; `None` if it is not tracked.
        cpu_memory: Option<u64>,
    }

    numbers! { MemorySnapshot:
        /// Returns the id of the pool's device.
        device_id: i32,
        /// Returns the bytes of allocated blocks.
        allocated_memory: u64,
        /// Returns the bytes allocated from the device.
        reserved_memory: u64,
        /// Returns the allocated bytes, plus bytes that were freed but still wait for another stream.
        active_memory: u64,
        /// Returns the cached bytes: reserved but not active. In the snapshot of a peak, at the moment of peak allocated bytes.
        inactive_memory: u64,
        /// Returns the bytes that callers requested.
        requested_memory: u64,
        /// Returns the bytes used on the device by all processes.
        device_used_memory: u64,
        /// Returns the peak of allocated bytes, as [`MemorySnapshot::max_memory_allocated`].
        max_memory_allocated: u64,
        /// Returns the peak of reserved bytes, as [`MemorySnapshot::max_memory_reserved`].
        max_memory_reserved: u64,
    }
}

impl OfPool<ProfileSummary> {
    /// Returns the device, such as `cuda:0`.
    pub fn device(&self) -> &str {
        &self.0.device
    }

    /// Returns the summary of all calls of one name; `None` if there was none.
    pub fn function(&self, name: &str) -> Option<OfPool<&CallSummary>> {
        self.0.function_summaries.get(name).map(OfPool)
    }

    /// Returns the names of all functions, sorted, each with the summary of its calls.
    pub fn functions(&self) -> impl Iterator<Item = (&str, OfPool<&CallSummary>)> {
        self.0.function_summaries.iter().map(|(name, summary)| (&**name, OfPool(summary)))
    }

    fields! { ProfileSummary:
        /// Returns the number of profiled names.
        total_functions_profiled: usize,
        /// Returns the number of ended calls, including nested calls.
        total_function_calls: u64,
        /// Returns the seconds spent in ended outermost calls, summed over all threads.
        total_execution_time: f64,
        /// Whether monitoring is running.
        monitoring_active: bool,
        /// Returns the number of kept monitoring snapshots.
        snapshots_collected: usize,
    }

    numbers! { ProfileSummary:
        /// Returns the bytes allocated on the device while any call was open.
        total_memory_allocated: u64,
        /// Returns the bytes freed on the device while any call was open.
        total_memory_freed: u64,
        /// Returns the bytes allocated minus the bytes freed while any call was open.
        net_memory_change: i64,
        /// Returns the peak of allocated bytes since the baseline, inside or outside calls.
        peak_memory_usage: u64,
        /// Returns the currently allocated bytes.
        current_memory_usage: u64,
        /// Returns the bytes allocated at the baseline.
        baseline_memory_usage: u64,
        /// Returns the currently allocated bytes minus the allocated bytes at the baseline.
        memory_change_from_baseline: i64,
    }
}

impl OfPool<&CallSummary> {
    fields! { CallSummary:
        /// Returns the number of ended calls.
        call_count: u64,
        /// Returns the number of calls that returned an error or panicked.
        failed_calls: u64,
        /// Returns the seconds spent in all calls.
        total_time: f64,
        /// Returns the average seconds per call.
        avg_time: f64,
    }

    numbers! { CallSummary:
        /// Returns the bytes allocated on the device during its calls.
        total_memory_allocated: u64,
        /// Returns the average bytes allocated on the device per call.
        avg_memory_allocated: f64,
        /// Returns the highest peak of its calls, in bytes.
        peak_memory: u64,
    }
}
