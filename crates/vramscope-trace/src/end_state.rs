//! The allocator's state at the time of the snapshot.

use std::ops::Range;

use crate::events::PoolId;
use crate::ids::{StackId, StringId, StringListId};
use crate::named::named;

/// Memory that the allocator has from the device: one `cudaMalloc`, or one contiguous mapped range of an expandable segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Address of the first byte on the device.
    pub address: u64,
    /// Bytes taken from the device.
    pub total_size: u64,
    /// Bytes in allocated blocks, as recorded. All known releases record it.
    pub allocated_size: Option<u64>,
    /// Bytes in blocks allocated or waiting for a stream, as recorded.
    pub active_size: Option<u64>,
    /// Requested bytes of the active blocks, as recorded (PyTorch 2.0 and later).
    pub requested_size: Option<u64>,
    /// The raw `cudaStream_t` of the segment; 0 is the default stream.
    pub stream: u64,
    /// Small or large pool.
    pub kind: SegmentKind,
    /// The private pool; `(0, 0)` is the default pool. Absent in old releases.
    pub pool: Option<PoolId>,
    /// Whether the segment is part of an expandable segment (PyTorch 2.1 and later).
    pub is_expandable: Option<bool>,
    /// Stack of the request that took the segment from the device (PyTorch 2.1 and later); `None` if the key is absent.
    pub stack: Option<StackId>,
    /// The forward pass that anomaly mode recorded for the segment.
    pub forward_frames: Option<StringListId>,
    /// The segment's blocks in address order, as a range of [`DeviceTrace::blocks`](crate::DeviceTrace::blocks).
    pub blocks: Range<usize>,
}

impl Segment {
    /// A segment of which only the address and the size in bytes are known.
    pub(crate) fn new(address: u64, total_size: u64) -> Self {
        Self {
            address,
            total_size,
            allocated_size: None,
            active_size: None,
            requested_size: None,
            stream: 0,
            kind: SegmentKind::Unknown,
            pool: None,
            is_expandable: None,
            stack: None,
            forward_frames: None,
            blocks: 0..0,
        }
    }
}

named! {
    /// The pool of a segment.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SegmentKind {
        /// Requests up to 1 MiB.
        Small = "small",
        /// Larger requests.
        Large = "large",
        /// Not recorded.
        Unknown = "unknown",
    }
    /// All pools.
    ALL
    /// Returns the name in a snapshot.
    name
}

/// A block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Address of the first byte on the device. If the file has none, as in old releases, it is computed from the segment's address.
    pub address: u64,
    /// Size in bytes, after rounding.
    pub size: u64,
    /// Bytes requested by the caller. For an inactive block: bytes requested by its last owner, or 0.
    pub requested_size: u64,
    /// State of the block.
    pub state: BlockState,
    /// Stack of the allocation; `None` if the key is absent.
    pub stack: Option<StackId>,
    /// The forward pass that anomaly mode recorded for the block.
    pub forward_frames: Option<StringListId>,
    /// Metadata of the allocation. The Python package writes a [`Purpose`](crate::Purpose) here.
    pub user_metadata: Option<StringId>,
}

impl Block {
    /// The free block from the address `from` to `to`; `None` if there is nothing between them.
    pub fn free_between(from: u64, to: u64) -> Option<Self> {
        (from < to).then_some(Self {
            address: from,
            size: to - from,
            requested_size: 0,
            state: BlockState::Inactive,
            stack: None,
            forward_frames: None,
            user_metadata: None,
        })
    }
}

/// State of a block, by PyTorch's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// `active_allocated`: allocated.
    ActiveAllocated,
    /// `active_pending_free`: freed, but still in use on another stream. PyTorch's documentation calls it `active_awaiting_free`; no
    /// release writes that name, but the reader accepts it.
    ActivePendingFree,
    /// `inactive`: free.
    Inactive,
}

impl BlockState {
    /// Returns the state's name in a snapshot.
    pub fn name(self) -> &'static str {
        match self {
            Self::ActiveAllocated => "active_allocated",
            Self::ActivePendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }

    /// Whether the block is allocated or waiting for a stream, and so not available to another request.
    pub fn is_active(self) -> bool {
        self != Self::Inactive
    }
}
