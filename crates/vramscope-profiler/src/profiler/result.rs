//! The result of one call.

use std::sync::Arc;
use std::time::Duration;

use super::threads::ThreadUse;
use crate::snapshot::MemorySnapshot;

/// The memory use of one call of a function, or of one code block: gpumemprof's `ProfileResult`. Memory is in bytes. Unknown numbers are
/// `None`.
///
/// Serde reads and writes it in the format of gpumemprof's `to_dict()`, with `allocations_created` and `allocations_freed` under the keys
/// `tensors_created` and `tensors_deleted`. The keys `peak_is_exact`, `thread`, `depth`, `outcome` and `error` are additional.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileResult {
    /// The name of the function or code block.
    pub function_name: Arc<str>,
    /// The duration of the call.
    pub execution_time: Duration,
    /// The memory use at the start of the call.
    pub memory_before: MemorySnapshot,
    /// The memory use at the end of the call, including its return value.
    pub memory_after: MemorySnapshot,
    /// The peaks during the call, each at its own moment, including memory that was in use before.
    pub memory_peak: MemorySnapshot,
    /// Whether the peaks of the pool's numbers are exact. Otherwise they are the highest readings, and the true peaks are at least as high.
    /// The peak of host memory is always the highest reading.
    pub peak_is_exact: bool,
    /// Bytes allocated on the device during the call, freed or not.
    pub memory_allocated: Option<u64>,
    /// Bytes freed on the device during the call.
    pub memory_freed: Option<u64>,
    /// Number of blocks allocated on the device during the call, if allocations are tracked (gpumemprof's `tensors_created`, which searches
    /// the garbage collector).
    pub allocations_created: Option<u64>,
    /// Number of blocks freed on the device during the call (gpumemprof's `tensors_deleted`).
    pub allocations_freed: Option<u64>,
    /// The thread use of the call, if allocations are tracked.
    pub thread: Option<ThreadUse>,
    /// Number of calls of the same profiler around it on the same thread; 0 is outermost.
    pub depth: usize,
    /// How the call ended.
    pub outcome: CallOutcome,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// The function returned, and not an error.
    Returned,
    /// The function returned an error with this message.
    Failed(String),
    /// The function panicked with this message.
    Panicked(String),
}

impl ProfileResult {
    /// Returns the allocated bytes after the call minus the allocated bytes before it.
    pub fn memory_diff(&self) -> Option<i64> {
        let (after, before) = (self.memory_after.allocated_memory?, self.memory_before.allocated_memory?);
        Some(after.cast_signed().wrapping_sub(before.cast_signed()))
    }

    /// Returns the peak of allocated bytes during the call, including bytes that were live before.
    pub fn peak_memory_usage(&self) -> Option<u64> {
        self.memory_peak.allocated_memory
    }

    /// Returns the bytes by which that peak exceeds the allocated bytes at the start of the call.
    pub fn peak_above_start(&self) -> Option<u64> {
        Some(self.peak_memory_usage()?.saturating_sub(self.memory_before.allocated_memory?))
    }

    /// Returns the message of the call's error or panic, if any.
    pub fn error(&self) -> Option<&str> {
        match &self.outcome {
            CallOutcome::Returned => None,
            CallOutcome::Failed(error) | CallOutcome::Panicked(error) => Some(error),
        }
    }
}
