//! A result as JSON.

use std::borrow::Cow;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::profiler::{CallOutcome, ProfileResult, ThreadUse};
use crate::snapshot::MemorySnapshot;

/// gpumemprof's keys in its order, then ours.
#[derive(Serialize, Deserialize)]
struct ResultKeys<'r> {
    function_name: Cow<'r, str>,
    /// In seconds.
    execution_time: f64,
    memory_before: Cow<'r, MemorySnapshot>,
    memory_after: Cow<'r, MemorySnapshot>,
    memory_peak: Cow<'r, MemorySnapshot>,
    memory_allocated: Option<u64>,
    memory_freed: Option<u64>,
    /// Computed from the snapshots, like the next key.
    memory_diff: Option<i64>,
    peak_memory_usage: Option<u64>,
    tensors_created: Option<u64>,
    tensors_deleted: Option<u64>,
    /// Always 1, as in gpumemprof.
    #[serde(default)]
    call_count: u64,
    #[serde(default)]
    peak_is_exact: bool,
    thread: Option<ThreadUse>,
    #[serde(default)]
    depth: usize,
    #[serde(default)]
    outcome: OutcomeKey,
    /// The message of a call that failed or panicked.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'r, str>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeKey {
    #[default]
    Returned,
    Failed,
    Panicked,
}

impl Serialize for ProfileResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ResultKeys {
            function_name: Cow::Borrowed(&self.function_name),
            execution_time: self.execution_time.as_secs_f64(),
            memory_before: Cow::Borrowed(&self.memory_before),
            memory_after: Cow::Borrowed(&self.memory_after),
            memory_peak: Cow::Borrowed(&self.memory_peak),
            memory_allocated: self.memory_allocated,
            memory_freed: self.memory_freed,
            memory_diff: self.memory_diff(),
            peak_memory_usage: self.peak_memory_usage(),
            tensors_created: self.allocations_created,
            tensors_deleted: self.allocations_freed,
            call_count: 1,
            peak_is_exact: self.peak_is_exact,
            thread: self.thread,
            depth: self.depth,
            outcome: match self.outcome {
                CallOutcome::Returned => OutcomeKey::Returned,
                CallOutcome::Failed(_) => OutcomeKey::Failed,
                CallOutcome::Panicked(_) => OutcomeKey::Panicked,
            },
            error: self.error().map(Cow::Borrowed),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ProfileResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = ResultKeys::deserialize(deserializer)?;
        let no_time =
            |_| D::Error::custom(format_args!("execution_time is out of range: {} s", read.execution_time));
        let execution_time = Duration::try_from_secs_f64(read.execution_time).map_err(no_time)?;
        let error = read.error.unwrap_or_default().into_owned();
        Ok(Self {
            function_name: read.function_name.into(),
            execution_time,
            memory_before: read.memory_before.into_owned(),
            memory_after: read.memory_after.into_owned(),
            memory_peak: read.memory_peak.into_owned(),
            peak_is_exact: read.peak_is_exact,
            memory_allocated: read.memory_allocated,
            memory_freed: read.memory_freed,
            allocations_created: read.tensors_created,
            allocations_freed: read.tensors_deleted,
            thread: read.thread,
            depth: read.depth,
            outcome: match read.outcome {
                OutcomeKey::Returned => CallOutcome::Returned,
                OutcomeKey::Failed => CallOutcome::Failed(error),
                OutcomeKey::Panicked => CallOutcome::Panicked(error),
            },
        })
    }
}
