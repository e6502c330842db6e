//! A request that failed, in numbers: of a recording or of a replay.

use vramscope_engine::Policy;
use vramscope_trace::StackId;

use crate::causes::OomCauses;
use crate::counters::Counters;
use crate::fragmentation::{Fragmentation, Request};
use crate::holders::Holder;
use crate::pins::Pins;

/// The device had room for the segment that a request of `rounded` bytes asks it for: it failed at a limit on reserved
/// bytes, as `per_process_memory_fraction` sets one. `device_free` are the bytes that the driver had free.
pub(crate) fn is_at_limit(policy: &Policy, rounded: u64, device_free: u64) -> bool {
    policy.segment_size(rounded) <= device_free
}

/// A request for which there was no memory, and what the memory looked like then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The number of the event, from 0.
    pub event: usize,
    /// Microseconds since the Unix epoch, where recorded.
    pub time_us: Option<i64>,
    /// What was asked for, in bytes after rounding.
    pub request: Request,
    /// Bytes the driver still had free, as the allocator asked it.
    pub device_free: u64,
    /// The device had room for it: a limit on reserved bytes stood in the way.
    pub at_limit: bool,
    /// Bytes that were requested, allocated, active and reserved then.
    pub counters: Counters,
    /// Why none of its free memory could serve the request.
    pub fragmentation: Fragmentation,
    /// Why it failed, each cause in bytes.
    pub causes: OomCauses,
    /// Bytes of the device, where they were recorded.
    pub device_total: Option<u64>,
    /// Which lines kept free memory from joining.
    pub pins: Pins,
    /// Where the request was made.
    pub stack: Option<StackId>,
    /// Who held the allocated bytes, by line, most first.
    pub holders: Vec<Holder>,
}

impl OutOfMemory {
    /// Free on the device and reserved without use together would have been enough.
    pub fn enough_in_total(&self) -> bool {
        self.device_free.saturating_add(self.fragmentation.external) >= self.request.bytes
    }

    /// What the allocator could have of the device: what it held, and what the driver had free. `None` where a limit on reserved
    /// bytes stood in the way, which the device itself exceeds.
    pub fn device_bytes(&self) -> Option<u64> {
        (!self.at_limit).then(|| self.counters.reserved.saturating_add(self.device_free))
    }

    /// Bytes missing even if all that is reserved without use could be used.
    pub fn missing(&self) -> u64 {
        self.request.bytes.saturating_sub(self.device_free.saturating_add(self.fragmentation.external))
    }
}
