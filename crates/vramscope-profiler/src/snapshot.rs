//! [`MemorySnapshot`]: what was in use at one moment.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use vramscope_allocator::SourceFrame;

use crate::source::Reading;

/// What was in use at one moment, in bytes: gpumemprof's `MemorySnapshot`. A number that the source does not know is `None`.
///
/// Serde writes and reads it in the form of gpumemprof's `to_dict()`, with `timestamp` in seconds and `stack_trace` in the form of
/// Python's tracebacks. It has these keys in addition: `requested_memory`, `device_used_memory` and, where there is a stack,
/// `stack_frames`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// When it was taken, in microseconds since the Unix epoch.
    pub timestamp_us: i64,
    /// Bytes of blocks handed out.
    pub allocated_memory: Option<u64>,
    /// Bytes taken from the device.
    pub reserved_memory: Option<u64>,
    /// The highest allocated bytes: in a snapshot of monitoring, since the one before; in one of a call, since the call began;
    /// otherwise since the baseline.
    pub max_memory_allocated: Option<u64>,
    /// The highest reserved bytes, over the same time.
    pub max_memory_reserved: Option<u64>,
    /// Bytes of blocks handed out, and of blocks that were freed and wait for another stream.
    pub active_memory: Option<u64>,
    /// Cached: reserved and not active. In the snapshot of a peak, this is of the moment at which most was allocated, which a
    /// pool knows.
    pub inactive_memory: Option<u64>,
    /// Bytes that callers asked for, of all active blocks.
    pub requested_memory: Option<u64>,
    /// Bytes in use on the device by anyone.
    pub device_used_memory: Option<u64>,
    /// The resident memory of this process on the host, where it is tracked, without what looking up the symbols of stacks took.
    /// It may have been read up to 100 microseconds before, by a monitor up to 100 milliseconds.
    pub cpu_memory: Option<u64>,
    /// The device's number; `None` where there is no device.
    pub device_id: Option<i32>,
    /// Why it was taken.
    pub operation: Operation,
    /// The stack that called the profiler, innermost frame first, where stacks are collected. In the snapshot of a peak, the
    /// stack of the allocation that reached it; `None` where the source does not know it, or where nothing rose above what was
    /// allocated at the beginning.
    pub stack_trace: Option<Arc<[SourceFrame]>>,
}

/// Why a snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// The state that later ones are compared with.
    Baseline,
    /// The call of this name begins.
    Before(Arc<str>),
    /// The highest values during the call of this name, each at its own moment.
    Peak(Arc<str>),
    /// The call of this name has ended.
    After(Arc<str>),
    /// Monitoring takes one at each interval.
    Monitor,
    /// The program asked for it.
    Now,
    /// The text of another writer, read from JSON; empty where there was none.
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
    /// A snapshot of the reading `now`, with the highest values `high`.
    pub(crate) fn new(
        operation: Operation,
        device_id: Option<i32>,
        timestamp_us: i64,
        now: &Reading,
        high: &Reading,
    ) -> Self {
        // The highest values may each be of another moment, so that their difference means nothing.
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
