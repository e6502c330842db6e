//! What was in use at one moment.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use vramscope_allocator::SourceFrame;

use crate::source::Reading;

/// What was in use at one moment, in bytes: gpumemprof's `MemorySnapshot`. `None` is what the source does not
/// know.
///
/// Serde writes and reads it as gpumemprof's `to_dict()`: `timestamp` in seconds, `stack_trace` as Python's text, and
/// beside its keys `requested_memory`, `device_used_memory` and, where there is a stack, `stack_frames`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// When, in microseconds since the Unix epoch.
    pub timestamp_us: i64,
    /// Blocks handed out.
    pub allocated_memory: Option<u64>,
    /// Taken from the device.
    pub reserved_memory: Option<u64>,
    /// The most allocated since the snapshot before, of those that a monitor takes; since the beginning of what
    /// is profiled, of others.
    pub max_memory_allocated: Option<u64>,
    /// The most reserved; as above.
    pub max_memory_reserved: Option<u64>,
    /// Allocated, and freed but still waiting for another stream.
    pub active_memory: Option<u64>,
    /// Cached: reserved and not active. Of a peak, at the moment at which most was allocated, where the source knows
    /// that: a pool does.
    pub inactive_memory: Option<u64>,
    /// What callers asked for.
    pub requested_memory: Option<u64>,
    /// In use on the device by anyone.
    pub device_used_memory: Option<u64>,
    /// Resident memory of this process on the host, where it is tracked; looked at no more than ten thousand
    /// times a second, by a monitor ten times a second.
    pub cpu_memory: Option<u64>,
    /// The device's number.
    pub device_id: Option<i32>,
    /// What it was taken for.
    pub operation: Operation,
    /// Who called the profiler, innermost first, where stacks are collected. Of a peak, who allocated when it was
    /// reached, where the source knows that and it was not so from the beginning.
    pub stack_trace: Option<Arc<[SourceFrame]>>,
}

/// What a snapshot was taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// The state that later ones are compared with.
    Baseline,
    /// What is named begins.
    Before(Arc<str>),
    /// The highest values while it ran, each at its own moment.
    Peak(Arc<str>),
    /// It has ended.
    After(Arc<str>),
    /// At an interval.
    Monitor,
    /// Somebody asked.
    Now,
    /// What another writer called it, read from JSON; no words are none.
    Other(Arc<str>),
}

impl fmt::Display for Operation {
    /// gpumemprof's words: `baseline`, `before_step`, `peak_step`, `after_step`, `monitor`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline => f.pad("baseline"),
            Self::Before(name) => f.pad(&format!("before_{name}")),
            Self::Peak(name) => f.pad(&format!("peak_{name}")),
            Self::After(name) => f.pad(&format!("after_{name}")),
            Self::Monitor => f.pad("monitor"),
            Self::Now => f.pad("now"),
            Self::Other(words) => f.pad(words),
        }
    }
}

impl MemorySnapshot {
    /// What `now` says, with the highest values since some moment before.
    pub(crate) fn new(
        operation: Operation,
        device_id: Option<i32>,
        timestamp_us: i64,
        now: &Reading,
        high: &Reading,
    ) -> Self {
        // Peaks are each of their own moment: no difference between two of them means anything.
        let inactive = if matches!(operation, Operation::Peak(_)) { None } else { now.inactive() };
        Self {
            timestamp_us,
            allocated_memory: now.allocated,
            reserved_memory: now.reserved,
            max_memory_allocated: high.allocated,
            max_memory_reserved: high.reserved,
            active_memory: now.active,
            inactive_memory: inactive,
            requested_memory: now.requested,
            device_used_memory: now.device_used,
            cpu_memory: now.cpu,
            device_id,
            operation,
            stack_trace: None,
        }
    }
}

/// Microseconds since the Unix epoch.
pub(crate) fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
