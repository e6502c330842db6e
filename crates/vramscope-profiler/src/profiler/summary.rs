//! All calls together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::result::ProfileResult;
use crate::source::Counts;

/// All calls together, with the keys of gpumemprof's `get_summary()`. Bytes, and seconds; `None` is what the
/// source does not know.
///
/// # What differs from gpumemprof
/// - Totals are of the time in which any call was open, so nothing is counted twice, however calls nest and on
///   how many threads they run. A function's own row adds up its calls, each with what happened on the device
///   meanwhile.
/// - Where nothing was profiled the numbers are 0, and what monitoring saw is there all the same; gpumemprof gives
///   a message alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSummary {
    /// The device, as `cuda:0`.
    pub device: String,
    /// Names that were profiled.
    pub total_functions_profiled: usize,
    /// Calls, those inside others too.
    pub total_function_calls: u64,
    /// Seconds in outermost calls that ended, of all threads.
    pub total_execution_time: f64,
    /// Bytes allocated on the device while any call was open.
    pub total_memory_allocated: Option<u64>,
    /// Bytes freed meanwhile.
    pub total_memory_freed: Option<u64>,
    /// Their difference.
    pub net_memory_change: Option<i64>,
    /// The most allocated since the baseline, in calls or between.
    pub peak_memory_usage: Option<u64>,
    /// That saw everything; else the truth is at least that.
    #[serde(default)]
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
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionSummary {
    /// Calls.
    pub call_count: u64,
    /// Seconds in all of them.
    pub total_time: f64,
    /// Seconds of one, on average.
    pub avg_time: f64,
    /// Bytes allocated on the device during them; `None` where that is not known of each.
    pub total_memory_allocated: Option<u64>,
    /// Bytes allocated during one, on average of those of which it is known.
    pub avg_memory_allocated: Option<f64>,
    /// The highest peak of one.
    pub peak_memory: Option<u64>,
    /// Calls that returned an error or panicked.
    #[serde(default)]
    pub failed_calls: u64,
}

/// Sums over calls.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Of outermost calls that ended.
    pub(super) time: Duration,
    pub(super) calls: u64,
    pub(super) functions: BTreeMap<Arc<str>, FunctionTotals>,
    /// Calls that are open, on any thread.
    open: u64,
    /// The counts when the first of those began.
    since: Option<Counts>,
    /// Bytes allocated and freed while any call was open, until the last one ended; `None` once that was not known.
    used: Option<(u64, u64)>,
    /// The counts then.
    until: Counts,
}

#[derive(Debug, Default)]
pub(super) struct FunctionTotals {
    calls: u64,
    failed: u64,
    time: Duration,
    allocated: u64,
    /// Calls of which it is known what they allocated.
    known: u64,
    peak: Option<u64>,
}

impl Totals {
    pub(super) fn new() -> Self {
        Self { used: Some((0, 0)), ..Self::default() }
    }

    /// Forgets all but the calls that are open, which count from `counts` on.
    pub(super) fn clear(&mut self, counts: Option<Counts>) {
        let since = self.since.and(counts);
        *self = Self { open: self.open, since, until: self.until, ..Self::new() };
    }

    pub(super) fn begin(&mut self, counts: Option<Counts>) {
        if self.open == 0 {
            // Another thread's call may have ended later than this one looked.
            self.since = counts.map(|counts| Counts {
                allocated_bytes: counts.allocated_bytes.max(self.until.allocated_bytes),
                freed_bytes: counts.freed_bytes.max(self.until.freed_bytes),
                ..counts
            });
        }
        self.open += 1;
    }

    pub(super) fn end(&mut self, result: &ProfileResult, counts: Option<Counts>) {
        if self.open == 1 {
            self.used = self.used(counts);
            self.until = counts.unwrap_or(self.until);
            self.since = None;
        }
        self.open = self.open.saturating_sub(1);
        self.calls += 1;
        if result.depth == 0 {
            self.time += result.execution_time;
        }
        let function = match self.functions.get_mut(&result.function_name) {
            Some(function) => function,
            None => self.functions.entry(Arc::clone(&result.function_name)).or_default(),
        };
        function.calls += 1;
        function.failed += u64::from(result.error().is_some());
        function.time += result.execution_time;
        if let Some(allocated) = result.memory_allocated {
            function.allocated = function.allocated.saturating_add(allocated);
            function.known += 1;
        }
        function.peak = function.peak.max(result.peak_memory_usage());
    }

    /// Bytes allocated and freed while any call was open, until now.
    pub(super) fn used(&self, now: Option<Counts>) -> Option<(u64, u64)> {
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

    pub(super) fn summaries(&self) -> BTreeMap<Arc<str>, FunctionSummary> {
        self.functions.iter().map(|(name, f)| (Arc::clone(name), f.summary())).collect()
    }
}

impl FunctionTotals {
    fn summary(&self) -> FunctionSummary {
        let (calls, time) = (self.calls.max(1) as f64, self.time.as_secs_f64());
        FunctionSummary {
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
