//! How large the device of a replay is.

/// How large the replayed device is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The whole device.
    pub total: u64,
    /// What of it the allocator cannot have: contexts, other processes.
    pub overhead: u64,
}
