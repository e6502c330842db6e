//! The result of one call.

use std::sync::Arc;
use std::time::Duration;

use super::threads::ThreadUse;
use crate::snapshot::MemorySnapshot;

/// What one call of a function, or one block, did to memory: gpumemprof's `ProfileResult`. Memory is in bytes. A number that the
/// source does not know is `None`.
///
/// Serde writes and reads it in the form of gpumemprof's `to_dict()`, with `allocations_created` and `allocations_freed` under
/// the keys `tensors_created` and `tensors_deleted`. It has these keys in addition: `peak_is_exact`, `thread`, `depth`, `outcome`
/// and `error`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileResult {
    /// The name of the function or block.
    pub function_name: Arc<str>,
    /// How long the call took.
    pub execution_time: Duration,
    /// What was in use when the call began.
    pub memory_before: MemorySnapshot,
    /// What was in use when the call had ended, with what it returned.
    pub memory_after: MemorySnapshot,
    /// The highest values while the call ran, each at its own moment, with what was in use before.
    pub memory_peak: MemorySnapshot,
    /// Whether the peaks of what a pool counts are exact. Otherwise they are the highest of the readings that were taken, and the
    /// true peaks are at least as high. The peak of host memory is always the highest reading.
    pub peak_is_exact: bool,
    /// Bytes that were allocated on the device while the call ran, freed or not.
    pub memory_allocated: Option<u64>,
    /// Bytes that were freed on the device while the call ran.
    pub memory_freed: Option<u64>,
    /// The number of blocks that were allocated on the device while the call ran, where allocations are tracked (gpumemprof's
    /// `tensors_created`, which asks the garbage collector).
    pub allocations_created: Option<u64>,
    /// The number of blocks that were freed meanwhile (gpumemprof's `tensors_deleted`).
    pub allocations_freed: Option<u64>,
    /// What the call's own thread did, where allocations are tracked.
    pub thread: Option<ThreadUse>,
    /// How many calls of the same profiler on the same thread it was inside of; 0 is outermost.
    pub depth: usize,
    /// How the call ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The function returned, and not an error.
    Returned,
    /// The function returned an error with this message.
    Failed(String),
    /// The function panicked with this message.
    Panicked(String),
}

impl ProfileResult {
    /// Allocated bytes after the call, minus those before.
    pub fn memory_diff(&self) -> Option<i64> {
        let (after, before) = (self.memory_after.allocated_memory?, self.memory_before.allocated_memory?);
        Some(after.cast_signed().wrapping_sub(before.cast_signed()))
    }

    /// The highest allocated bytes while the call ran, with what was live before.
    pub fn peak_memory_usage(&self) -> Option<u64> {
        self.memory_peak.allocated_memory
    }

    /// How many bytes that peak is above what was allocated when the call began.
    pub fn peak_above_start(&self) -> Option<u64> {
        Some(self.peak_memory_usage()?.saturating_sub(self.memory_before.allocated_memory?))
    }

    /// The message of the call's error or panic, where there was one.
    pub fn error(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Returned => None,
            Outcome::Failed(error) | Outcome::Panicked(error) => Some(error),
        }
    }
}
