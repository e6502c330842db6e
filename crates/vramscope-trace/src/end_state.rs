//! The allocator's state when the snapshot was taken.

use std::ops::Range;

use crate::events::PoolId;
use crate::ids::{StackId, StringId, StringListId};

/// Memory the allocator holds from the device: one `cudaMalloc`, or one contiguous mapped range of an
/// expandable segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// First byte on the device.
    pub address: u64,
    /// Bytes taken from the device.
    pub total_size: u64,
    /// Bytes in allocated blocks, as the file says; absent in none of the known releases.
    pub allocated_size: Option<u64>,
    /// Bytes in blocks allocated or waiting for a stream, as the file says.
    pub active_size: Option<u64>,
    /// Bytes asked for in the active blocks, as the file says (PyTorch 2.0 and later).
    pub requested_size: Option<u64>,
    /// The raw `cudaStream_t` the segment serves; 0 is the default stream.
    pub stream: u64,
    /// Which pool it serves.
    pub kind: SegmentKind,
    /// The private pool it belongs to; `(0, 0)` is the default pool. Absent in old releases.
    pub pool: Option<PoolId>,
    /// Part of an expandable segment (PyTorch 2.1 and later).
    pub is_expandable: Option<bool>,
    /// Where the memory was taken from the device (PyTorch 2.1 and later); `None` where the key is absent.
    pub stack: Option<StackId>,
    /// The forward pass that anomaly mode saw behind it.
    pub forward_frames: Option<StringListId>,
    /// Its blocks, in address order, as a range of [`DeviceTrace::blocks`](crate::DeviceTrace::blocks).
    pub blocks: Range<usize>,
}

/// The pool a segment serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// Requests up to 1 MiB.
    Small,
    /// Larger requests.
    Large,
    /// The file does not say.
    Unknown,
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First byte on the device. Old files leave it out; it is then summed up from the segment's address.
    pub address: u64,
    /// Bytes, after rounding.
    pub size: u64,
    /// Bytes the caller asked for. Of an inactive block this is what its last user asked for, or 0.
    pub requested_size: u64,
    /// What the block is doing.
    pub state: BlockState,
    /// Where it was allocated; `None` where the key is absent.
    pub stack: Option<StackId>,
    /// The forward pass that anomaly mode saw behind it.
    pub forward_frames: Option<StringListId>,
    /// What it is for, see [`Purpose`](crate::Purpose); the Python package writes it.
    pub user_metadata: Option<StringId>,
}

/// What a block is doing, in PyTorch's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// `active_allocated`: a tensor uses it.
    ActiveAllocated,
    /// `active_pending_free`: freed, waiting for another stream. The documentation's
    /// `active_awaiting_free`, which no release writes, is read as the same.
    ActivePendingFree,
    /// `inactive`: free for reuse.
    Inactive,
}

impl BlockState {
    /// The name in a snapshot.
    pub fn name(self) -> &'static str {
        match self {
            Self::ActiveAllocated => "active_allocated",
            Self::ActivePendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }

    /// Allocated or waiting for a stream: not available to another request.
    pub fn is_active(self) -> bool {
        self != Self::Inactive
    }
}
