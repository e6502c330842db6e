//! What is known of one call.

use std::sync::Arc;
use std::time::Duration;

use super::threads::ThreadUse;
use crate::snapshot::MemorySnapshot;

/// What one call of a function, or one block, did to memory: gpumemprof's `ProfileResult`. `None` is what the
/// source does not know.
///
/// Serde writes and reads it as gpumemprof's `to_dict()`, with `allocations_created` and `allocations_freed` under the
/// keys `tensors_created` and `tensors_deleted`, and beside its keys `peak_is_exact`, `thread`, `depth`, `outcome` and
/// `error`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileResult {
    /// Its name.
    pub function_name: Arc<str>,
    /// How long it took.
    pub execution_time: Duration,
    /// What was in use when it began.
    pub memory_before: MemorySnapshot,
    /// What was in use when it had ended. What it returned counts.
    pub memory_after: MemorySnapshot,
    /// The highest values while it ran, each at its own moment; what was in use before counts.
    pub memory_peak: MemorySnapshot,
    /// The peak saw everything, of what a pool counts; host memory is always what was looked at. Else it is the highest of
    /// what was looked at, and the truth is at least that.
    pub peak_is_exact: bool,
    /// Bytes that were allocated on the device while it ran, whatever became of them.
    pub memory_allocated: Option<u64>,
    /// Bytes that were freed on the device while it ran.
    pub memory_freed: Option<u64>,
    /// Blocks that were allocated on the device while it ran, where allocations are tracked (gpumemprof:
    /// `tensors_created`, what the garbage collector sees).
    pub allocations_created: Option<u64>,
    /// Blocks that were freed (`tensors_deleted`).
    pub allocations_freed: Option<u64>,
    /// What its own thread did, where allocations are tracked.
    pub thread: Option<ThreadUse>,
    /// Calls that it was inside of, of the same profiler and on the same thread.
    pub depth: usize,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It returned.
    Returned,
    /// It returned this error.
    Failed(String),
    /// It panicked with this message.
    Panicked(String),
}

impl ProfileResult {
    /// Allocated bytes after it, less those before.
    pub fn memory_diff(&self) -> Option<i64> {
        let (after, before) = (self.memory_after.allocated_memory?, self.memory_before.allocated_memory?);
        Some(after.cast_signed().wrapping_sub(before.cast_signed()))
    }

    /// The most that was allocated while it ran, with what was live before.
    pub fn peak_memory_usage(&self) -> Option<u64> {
        self.memory_peak.allocated_memory
    }

    /// How far that is above what was allocated when it began.
    pub fn peak_above_start(&self) -> Option<u64> {
        Some(self.peak_memory_usage()?.saturating_sub(self.memory_before.allocated_memory?))
    }

    /// Its error, where it returned one or panicked.
    pub fn error(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Returned => None,
            Outcome::Failed(error) | Outcome::Panicked(error) => Some(error),
        }
    }
}
