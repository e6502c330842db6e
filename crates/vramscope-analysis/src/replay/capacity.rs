//! How large the device of a replay is.

/// How large the replayed device is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// All bytes of the device.
    pub total: u64,
    /// Bytes of these that the allocator cannot have: contexts, other processes.
    pub overhead: u64,
}
