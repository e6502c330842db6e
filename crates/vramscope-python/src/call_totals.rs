//! The sums of a profiler's calls, for the Python profiler.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use serde::{Serialize, Serializer};
use vramscope::profiler::{self, CallSummary, Counts, EndedCall};

use crate::profiler::json;

/// Allocated bytes, and, if the source counts them, the bytes allocated and freed since the program began.
type Bytes = (u64, Option<u64>, Option<u64>);

/// The keys of gpumemprof's `get_summary` that are sums.
#[derive(Serialize)]
struct Sums {
    total_functions_profiled: usize,
    total_function_calls: u64,
    total_execution_time: f64,
    total_memory_allocated: u64,
    total_memory_freed: u64,
    net_memory_change: i64,
    #[serde(serialize_with = "as_map")]
    function_summaries: Vec<(Arc<str>, CallSummary)>,
}

fn as_map<S: Serializer>(functions: &[(Arc<str>, CallSummary)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(functions.iter().map(|(name, function)| (name, function)))
}

/// Sums over calls. Totals count while any call is open, so nested and concurrent calls do not count twice.
#[pyclass(module = "vramscope._native")]
#[derive(Default)]
pub(crate) struct CallTotals {
    totals: profiler::CallTotals,
    /// For a source that does not count: the allocated bytes of the last reading, and the sums of their changes.
    changes: Option<(u64, Counts)>,
}

impl CallTotals {
    fn counts(&mut self, (now, allocated, freed): Bytes) -> Option<Counts> {
        if let (Some(allocated_bytes), Some(freed_bytes)) = (allocated, freed) {
            return Some(Counts { allocated_bytes, freed_bytes, ..Counts::default() });
        }
        let (last, counts) = self.changes.get_or_insert((now, Counts::default()));
        counts.allocated_bytes += now.saturating_sub(*last);
        counts.freed_bytes += last.saturating_sub(now);
        *last = now;
        Some(*counts)
    }
}

#[pymethods]
impl CallTotals {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The number of ended calls.
    #[getter]
    fn calls(&self) -> u64 {
        self.totals.calls()
    }

    /// Counts a started call.
    fn begin(&mut self, bytes: Bytes) {
        let counts = self.counts(bytes);
        self.totals.begin(counts);
    }

    /// Counts an ended call: its name, depth, seconds, whether it failed, and the bytes that it allocated and its peak.
    fn end(&mut self, bytes: Bytes, call: (String, usize, f64, bool, u64, u64)) {
        let counts = self.counts(bytes);
        let (name, depth, seconds, failed, allocated, peak) = call;
        let ended = EndedCall {
            function_name: &name.into(),
            depth,
            execution_time: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
            failed,
            memory_allocated: Some(allocated),
            peak_memory: Some(peak),
        };
        self.totals.end(ended, counts);
    }

    /// Ends a call whose result is unknown, because the device does not answer.
    fn abandon(&mut self) {
        self.totals.abandon();
    }

    /// Clears all sums; open calls count from now on.
    fn clear(&mut self, bytes: Bytes) {
        let counts = self.counts(bytes);
        self.totals.clear(counts);
    }

    /// The sums as JSON, with gpumemprof's keys.
    fn summary(&mut self, bytes: Bytes) -> PyResult<String> {
        let counts = self.counts(bytes);
        let (allocated, freed) = self.totals.used(counts).unwrap_or_default();
        let function_summaries = self.totals.in_order();
        let sums = Sums {
            total_functions_profiled: function_summaries.len(),
            total_function_calls: self.totals.calls(),
            total_execution_time: self.totals.time().as_secs_f64(),
            total_memory_allocated: allocated,
            total_memory_freed: freed,
            net_memory_change: allocated.cast_signed().wrapping_sub(freed.cast_signed()),
            function_summaries,
        };
        json(&sums)
    }
}
