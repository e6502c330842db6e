//! The summary of all calls, updated as they end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::source::Counts;

/// The summary of all calls, with the keys of gpumemprof's `get_summary()`. Memory is in bytes and time in seconds. Unknown numbers are
/// `None`.
///
/// # Differences from gpumemprof
/// - Totals count while any call is open, so nested and concurrent calls do not count twice. A function's row adds up its calls, each with
///   everything that happened on the device during the call.
/// - If nothing was profiled, the numbers are 0 and monitoring's counts are still present; gpumemprof returns only a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSummary {
    /// The device, such as `cuda:0`.
    pub device: String,
    /// Number of profiled names.
    pub total_functions_profiled: usize,
    /// Number of ended calls, including nested calls.
    pub total_function_calls: u64,
    /// Seconds spent in ended outermost calls, summed over all threads.
    pub total_execution_time: f64,
    /// Bytes allocated on the device while any call was open.
    pub total_memory_allocated: Option<u64>,
    /// Bytes freed on the device while any call was open.
    pub total_memory_freed: Option<u64>,
    /// Bytes allocated minus bytes freed while any call was open.
    pub net_memory_change: Option<i64>,
    /// Peak of allocated bytes since the baseline, inside or outside calls.
    pub peak_memory_usage: Option<u64>,
    /// Whether that peak is exact. Otherwise it is the highest reading, and the true peak is at least as high.
    #[serde(default)]
    pub peak_is_exact: bool,
    /// Currently allocated bytes.
    pub current_memory_usage: Option<u64>,
    /// Bytes allocated at the baseline.
    pub baseline_memory_usage: Option<u64>,
    /// Currently allocated bytes minus allocated bytes at the baseline.
    pub memory_change_from_baseline: Option<i64>,
    /// The summary of each function, by name.
    pub function_summaries: BTreeMap<Arc<str>, CallSummary>,
    /// Whether monitoring is running.
    pub monitoring_active: bool,
    /// Number of kept monitoring snapshots.
    pub snapshots_collected: usize,
}

/// All calls of one name.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallSummary {
    /// Number of ended calls.
    pub call_count: u64,
    /// Seconds spent in all calls.
    pub total_time: f64,
    /// Average seconds per call.
    pub avg_time: f64,
    /// Bytes allocated on the device during the calls; `None` if unknown for any call.
    pub total_memory_allocated: Option<u64>,
    /// Average bytes allocated on the device per call, over the calls for which it is known.
    pub avg_memory_allocated: Option<f64>,
    /// The highest peak of a call, in bytes.
    pub peak_memory: Option<u64>,
    /// Number of calls that returned an error or panicked.
    #[serde(default)]
    pub failed_calls: u64,
}

/// Sums over the calls of a profiler, updated as calls begin and end. So results can be dropped.
#[derive(Debug)]
pub struct CallTotals {
    /// The time spent in ended outermost calls.
    time: Duration,
    calls: u64,
    functions: BTreeMap<Arc<str>, FunctionTotals>,
    /// Number of open calls on all threads.
    open: u64,
    /// The source's counts when the first of the open calls began.
    since: Option<Counts>,
    /// Bytes allocated and freed while any call was open, until the last open call ended; `None` once unknown.
    used: Option<(u64, u64)>,
    /// The source's counts when the last open call ended.
    until: Counts,
}

/// An ended call, as far as the sums need it.
#[derive(Debug, Clone, Copy)]
pub struct EndedCall<'c> {
    /// The call's name.
    pub function_name: &'c Arc<str>,
    /// Number of calls of the same profiler around it.
    pub depth: usize,
    /// The call's duration.
    pub execution_time: Duration,
    /// Whether it returned an error or panicked.
    pub failed: bool,
    /// Bytes allocated during the call.
    pub memory_allocated: Option<u64>,
    /// The peak of allocated bytes.
    pub peak_memory: Option<u64>,
}

#[derive(Debug, Default)]
struct FunctionTotals {
    /// Number of names before it, in the order of their first ended calls.
    number: usize,
    calls: u64,
    failed: u64,
    time: Duration,
    allocated: u64,
    /// Number of calls with known allocated bytes.
    known: u64,
    peak: Option<u64>,
}

impl Default for CallTotals {
    fn default() -> Self {
        Self {
            time: Duration::ZERO,
            calls: 0,
            functions: BTreeMap::new(),
            open: 0,
            since: None,
            used: Some((0, 0)),
            until: Counts::default(),
        }
    }
}

impl CallTotals {
    /// Clears all sums. Open calls count from `counts` on.
    pub fn clear(&mut self, counts: Option<Counts>) {
        let since = self.since.and(counts);
        *self = Self { open: self.open, since, until: self.until, ..Self::default() };
    }

    /// Counts a started call, with the source's counts at its start.
    pub fn begin(&mut self, counts: Option<Counts>) {
        if self.open == 0 {
            // Another thread's call may have ended after these counts were read. Its bytes must not count twice.
            self.since = counts.map(|counts| Counts {
                allocated_bytes: counts.allocated_bytes.max(self.until.allocated_bytes),
                freed_bytes: counts.freed_bytes.max(self.until.freed_bytes),
                ..counts
            });
        }
        self.open += 1;
    }

    /// Counts an ended call, with the source's counts at its end.
    pub fn end(&mut self, call: EndedCall<'_>, counts: Option<Counts>) {
        if self.open == 1 {
            self.used = self.used(counts);
            self.until = counts.unwrap_or(self.until);
        }
        self.abandon();
        self.calls += 1;
        if call.depth == 0 {
            self.time += call.execution_time;
        }
        let number = self.functions.len();
        let function = match self.functions.get_mut(call.function_name) {
            Some(function) => function,
            None => self
                .functions
                .entry(Arc::clone(call.function_name))
                .or_insert_with(|| FunctionTotals { number, ..FunctionTotals::default() }),
        };
        function.calls += 1;
        function.failed += u64::from(call.failed);
        function.time += call.execution_time;
        if let Some(allocated) = call.memory_allocated {
            function.allocated = function.allocated.saturating_add(allocated);
            function.known += 1;
        }
        function.peak = function.peak.max(call.peak_memory);
    }

    /// Ends a call without counting it.
    pub fn abandon(&mut self) {
        if self.open == 1 {
            self.since = None;
        }
        self.open = self.open.saturating_sub(1);
    }

    /// Returns the number of ended calls.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the time spent in ended outermost calls, summed over all threads.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Returns the bytes allocated and freed while any call was open, up to the counts `now`.
    pub fn used(&self, now: Option<Counts>) -> Option<(u64, u64)> {
        let ((allocated, freed), now) = (self.used?, now?);
        let since = match self.since {
            Some(since) => since,
            None if self.open == 0 => return self.used,
            None => return None,
        };
        Some((
            allocated.saturating_add(now.allocated_bytes.saturating_sub(since.allocated_bytes)),
            freed.saturating_add(now.freed_bytes.saturating_sub(since.freed_bytes)),
        ))
    }

    /// Returns the name and the summary of each function, in the order of their first ended calls.
    pub fn in_order(&self) -> Vec<(Arc<str>, CallSummary)> {
        let mut functions: Vec<_> = self.functions.iter().collect();
        functions.sort_by_key(|(_, function)| function.number);
        functions.into_iter().map(|(name, function)| (Arc::clone(name), function.summary())).collect()
    }

    /// Returns the summary of each function, by name.
    pub fn summaries(&self) -> BTreeMap<Arc<str>, CallSummary> {
        self.functions.iter().map(|(name, f)| (Arc::clone(name), f.summary())).collect()
    }
}

impl FunctionTotals {
    fn summary(&self) -> CallSummary {
        let (calls, time) = (self.calls.max(1) as f64, self.time.as_secs_f64());
        CallSummary {
            call_count: self.calls,
            total_time: time,
            avg_time: time / calls,
            total_memory_allocated: (self.known == self.calls).then_some(self.allocated),
            avg_memory_allocated: (self.known > 0).then(|| self.allocated as f64 / self.known as f64),
            peak_memory: self.peak,
            failed_calls: self.failed,
        }
    }
}
