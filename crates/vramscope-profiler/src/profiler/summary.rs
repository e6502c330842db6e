//! All calls together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::result::ProfileResult;

/// All calls together, with the keys of gpumemprof's `get_summary()`. Bytes, and seconds; `None` is what the
/// source does not know.
///
/// # What differs from gpumemprof
/// - Totals are of outermost calls, so nothing is counted twice. A function's own row is of all its calls.
/// - Where nothing was profiled the numbers are 0, and what monitoring saw is there all the same; gpumemprof gives
///   a message alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileSummary {
    /// The device, as `cuda:0`.
    pub device: String,
    /// Names that were profiled.
    pub total_functions_profiled: usize,
    /// Calls, those inside others too.
    pub total_function_calls: u64,
    /// Seconds in outermost calls.
    pub total_execution_time: f64,
    /// Bytes allocated in outermost calls.
    pub total_memory_allocated: Option<u64>,
    /// Bytes freed in outermost calls.
    pub total_memory_freed: Option<u64>,
    /// Their difference.
    pub net_memory_change: Option<i64>,
    /// The most allocated since the baseline, in calls or between.
    pub peak_memory_usage: Option<u64>,
    /// That saw everything; else the truth is at least that.
    pub peak_is_exact: bool,
    /// Allocated now.
    pub current_memory_usage: Option<u64>,
    /// Allocated at the baseline.
    pub baseline_memory_usage: Option<u64>,
    /// Their difference.
    pub memory_change_from_baseline: Option<i64>,
    /// By name.
    pub function_summaries: BTreeMap<Arc<str>, FunctionSummary>,
    /// A monitor runs.
    pub monitoring_active: bool,
    /// Snapshots at hand.
    pub snapshots_collected: usize,
}

/// All calls of one name.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct FunctionSummary {
    /// Calls.
    pub call_count: u64,
    /// Seconds in all of them.
    pub total_time: f64,
    /// Seconds of one, on average.
    pub avg_time: f64,
    /// Bytes allocated in all of them.
    pub total_memory_allocated: Option<u64>,
    /// Bytes allocated in one, on average.
    pub avg_memory_allocated: Option<f64>,
    /// The highest peak of one.
    pub peak_memory: Option<u64>,
    /// Calls that returned an error or panicked.
    pub failed_calls: u64,
}

/// Sums over the calls that ended.
#[derive(Debug, Default)]
pub(super) struct Totals {
    time: Duration,
    allocated: u64,
    freed: u64,
    pub(super) calls: u64,
    pub(super) functions: BTreeMap<Arc<str>, Function>,
}

#[derive(Debug, Default)]
pub(super) struct Function {
    calls: u64,
    failed: u64,
    time: Duration,
    allocated: Option<u64>,
    peak: Option<u64>,
}

impl Totals {
    pub(super) fn add(&mut self, result: &ProfileResult) {
        self.calls += 1;
        if result.depth == 0 {
            self.time += result.execution_time;
            self.allocated += result.memory_allocated.unwrap_or(0);
            self.freed += result.memory_freed.unwrap_or(0);
        }
        let function = match self.functions.get_mut(&result.function_name) {
            Some(function) => function,
            None => self.functions.entry(Arc::clone(&result.function_name)).or_default(),
        };
        function.calls += 1;
        function.failed += u64::from(result.error().is_some());
        function.time += result.execution_time;
        function.allocated = result.memory_allocated.map(|n| n + function.allocated.unwrap_or(0));
        function.peak = function.peak.max(result.peak_memory_usage());
    }

    /// Seconds, and bytes allocated and freed, in outermost calls.
    pub(super) fn outermost(&self) -> (f64, u64, u64) {
        (self.time.as_secs_f64(), self.allocated, self.freed)
    }

    pub(super) fn summaries(&self) -> BTreeMap<Arc<str>, FunctionSummary> {
        self.functions.iter().map(|(name, f)| (Arc::clone(name), f.summary())).collect()
    }
}

impl Function {
    fn summary(&self) -> FunctionSummary {
        let (calls, time) = (self.calls.max(1) as f64, self.time.as_secs_f64());
        FunctionSummary {
            call_count: self.calls,
            total_time: time,
            avg_time: time / calls,
            total_memory_allocated: self.allocated,
            avg_memory_allocated: self.allocated.map(|bytes| bytes as f64 / calls),
            peak_memory: self.peak,
            failed_calls: self.failed,
        }
    }
}
