//! A failed request in numbers, from a recording or a replay.

use vramscope_engine::Policy;
use vramscope_trace::StackId;

use crate::causes::OomCauses;
use crate::counters::Counters;
use crate::fragmentation::{Fragmentation, Request};
use crate::holders::Holder;
use crate::pins::Pins;

/// Whether a request of `rounded` bytes failed at a limit on reserved bytes, such as `per_process_memory_fraction`. This is the
/// case if the device had room for the segment. `device_free` is the number of bytes that the driver had free.
pub(crate) fn is_at_limit(policy: &Policy, rounded: u64, device_free: u64) -> bool {
    policy.segment_size(rounded) <= device_free
}

/// A failed request, with the memory state at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The event index.
    pub event: usize,
    /// Time in microseconds since the Unix epoch, if recorded.
    pub time_us: Option<i64>,
    /// The request, in bytes after rounding.
    pub request: Request,
    /// Free bytes of the device, as reported to the allocator.
    pub device_free: u64,
    /// The device had room for the request: it failed at a limit on reserved bytes.
    pub at_limit: bool,
    /// Requested, allocated, active and reserved bytes at that moment.
    pub counters: Counters,
    /// Why no free block could serve the request.
    pub fragmentation: Fragmentation,
    /// The causes of the failure, each in bytes.
    pub causes: OomCauses,
    /// Size of the device in bytes, if recorded.
    pub device_total: Option<u64>,
    /// The lines that kept free blocks from being merged.
    pub pins: Pins,
    /// The stack of the request.
    pub stack: Option<StackId>,
    /// The lines that held the allocated bytes, most bytes first.
    pub holders: Vec<Holder>,
}

impl OutOfMemory {
    /// Whether the device's free bytes and the unused reserved bytes together were enough for the request.
    pub fn enough_in_total(&self) -> bool {
        self.device_free.saturating_add(self.fragmentation.external) >= self.request.bytes
    }

    /// Returns the bytes of the device that the allocator could use: reserved bytes plus the driver's free bytes. `None` if the
    /// request failed at a limit on reserved bytes, because the device is then larger.
    pub fn device_bytes(&self) -> Option<u64> {
        (!self.at_limit).then(|| self.counters.reserved.saturating_add(self.device_free))
    }

    /// Returns the bytes that would still be missing if all unused reserved bytes could be used.
    pub fn missing(&self) -> u64 {
        self.request.bytes.saturating_sub(self.device_free.saturating_add(self.fragmentation.external))
    }
}
