//! [`MemorySnapshot`]: the memory use at one moment.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use vramscope_allocator::SourceFrame;

use crate::source::Reading;

/// The memory use at one moment, in bytes: gpumemprof's `MemorySnapshot`. Unknown numbers are `None`.
///
/// Serde reads and writes it in the format of gpumemprof's `to_dict()`, with `timestamp` in seconds and `stack_trace` in the format of
/// Python's tracebacks. The keys `requested_memory`, `device_used_memory` and, if there is a stack, `stack_frames` are additional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// The time of the snapshot, in microseconds since the Unix epoch.
    pub timestamp_us: i64,
    /// Bytes of allocated blocks.
    pub allocated_memory: Option<u64>,
    /// Bytes allocated from the device.
    pub reserved_memory: Option<u64>,
    /// Peak of allocated bytes: in a snapshot of monitoring, since the previous one; in a snapshot of a call, since the call began;
    /// otherwise since the baseline.
    pub max_memory_allocated: Option<u64>,
    /// Peak of reserved bytes, over the same time.
    pub max_memory_reserved: Option<u64>,
    /// Allocated bytes, plus bytes of freed blocks that wait for another stream.
    pub active_memory: Option<u64>,
    /// Cached bytes: reserved but not active. In the snapshot of a peak: at the moment of peak allocated bytes, if the source is a pool.
    pub inactive_memory: Option<u64>,
    /// Bytes that callers requested, over all active blocks.
    pub requested_memory: Option<u64>,
    /// Bytes used on the device by all processes.
    pub device_used_memory: Option<u64>,
    /// Resident host memory of this process, if it is tracked, without the memory for stack symbols. The value may be up to 100
    /// microseconds old, with a monitor up to 100 milliseconds.
    pub cpu_memory: Option<u64>,
    /// The device id; `None` without a device.
    pub device_id: Option<i32>,
    /// The reason for the snapshot.
    pub operation: Operation,
    /// The stack that called the profiler, innermost frame first, if stacks are collected. In the snapshot of a peak, the stack of the
    /// allocation that reached it; `None` if it is unknown, or if allocated bytes never exceeded their value at the start.
    pub stack_trace: Option<Arc<[SourceFrame]>>,
}

/// The reason for a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// The state for later comparisons.
    Baseline,
    /// The call of this name begins.
    Before(Arc<str>),
    /// The peaks during the call of this name, each at its own moment.
    Peak(Arc<str>),
    /// The call of this name has ended.
    After(Arc<str>),
    /// A regular snapshot of monitoring.
    Monitor,
    /// The program requested it.
    Now,
    /// Text from JSON that another program wrote; empty if there was none.
    Other(Arc<str>),
}

impl fmt::Display for Operation {
    /// Formats gpumemprof's names: `baseline`, `before_step`, `peak_step`, `after_step`, `monitor`.
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
    /// Creates a snapshot of the reading `now`, with the peaks `high`.
    pub(crate) fn new(
        operation: Operation,
        device_id: Option<i32>,
        timestamp_us: i64,
        now: &Reading,
        high: &Reading,
    ) -> Self {
        // The peaks may be from different moments, so their difference has no meaning.
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

/// Returns microseconds since the Unix epoch.
pub(crate) fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
