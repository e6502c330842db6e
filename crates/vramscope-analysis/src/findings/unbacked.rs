//! Reserved bytes that the device cannot have.
//!
//! A program may unmap memory behind the allocator's back, as vLLM's sleep mode does with the segments of its own pools. PyTorch's counters
//! keep these bytes, so the sum can exceed the device (vllm-project/vllm#33625: 198 GB reserved on a device of 140 GB).

use crate::history::{History, Peaks};

/// The peak of reserved bytes beside the device's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnbackedBytes {
    /// The peak of reserved bytes.
    pub reserved: u64,
    /// The event of that peak; `None` if it is before the first event.
    pub event: Option<usize>,
    /// Size of the device in bytes.
    pub device_total: u64,
}

impl UnbackedBytes {
    /// The least bytes that are reserved and have no memory.
    pub fn bytes(&self) -> u64 {
        self.reserved.saturating_sub(self.device_total)
    }

    /// Compares the peak of reserved bytes with the device's size, if the recording has it and its segments are consistent.
    pub(crate) fn of(history: &History, peaks: &Peaks) -> Option<Self> {
        let device_total = history.device().total_bytes?;
        let (reserved, event) = (peaks.reserved.bytes, peaks.reserved.moment.event());
        let is_known =
            history.quality.contradictions.segment_contradictions == 0 && !history.device().is_host();
        (is_known && reserved > device_total).then_some(Self { reserved, event, device_total })
    }
}
