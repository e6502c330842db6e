//! Reserved bytes that `max_split_size_mb` adds.
//!
//! Free blocks of at least `max_split_size` serve only requests of at least that size, and only if they are hardly larger than the
//! request. So each request that is larger than the one before needs new memory, and with expandable segments, every request below the
//! limit does so too while a free block is above it (`get_free_block` in `c10/cuda/CUDACachingAllocator.cpp`; pytorch/pytorch#123548,
//! pytorch/pytorch#193400).

use vramscope_engine::TorchRelease;

/// The reserved bytes with `max_split_size_mb` and without it, at the peak of reserved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsplitGrowth {
    /// `max_split_size` in bytes.
    pub max_split_size: u64,
    /// Whether segments are expandable.
    pub is_expandable: bool,
    /// The release of PyTorch whose rules the recording follows.
    pub release: TorchRelease,
    /// The event of the peak of reserved bytes; `None` if it is before the first event.
    pub event: Option<usize>,
    /// The peak of reserved bytes.
    pub reserved: u64,
    /// Allocated bytes at that event.
    pub allocated: u64,
    /// The peak of reserved bytes up to that event in a replay without the setting.
    pub without: u64,
    /// Bytes of free blocks of at least `max_split_size` at that event.
    pub unsplit: u64,
    /// Number of these blocks.
    pub blocks: usize,
    /// Whether the replay is exact.
    pub is_exact: bool,
}

impl UnsplitGrowth {
    /// Reserved bytes that the setting adds.
    pub fn bytes(&self) -> u64 {
        self.reserved.saturating_sub(self.without)
    }
}
