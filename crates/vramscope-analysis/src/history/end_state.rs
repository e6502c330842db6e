//! Sums over the end state of a device.

use vramscope_trace::{BlockState, DeviceTrace};

/// Sums over the segments and blocks of the end state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndState {
    /// Number of segments.
    pub segments: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Bytes of the allocated blocks.
    pub allocated: u64,
    /// Bytes of the blocks that are allocated or wait for another stream.
    pub active: u64,
    /// Requested bytes in the active blocks.
    pub requested: u64,
    /// Bytes of the segments.
    pub reserved: u64,
}

impl EndState {
    pub(crate) fn of(device: &DeviceTrace) -> Self {
        let mut end =
            Self { segments: device.segments.len(), blocks: device.blocks.len(), ..Self::default() };
        end.reserved = device.segments.iter().map(|s| s.total_size).sum();
        for b in device.blocks.iter().filter(|b| b.state.is_active()) {
            end.active += b.size;
            end.requested += b.requested_size;
            if b.state == BlockState::ActiveAllocated {
                end.allocated += b.size;
            }
        }
        end
    }
}
