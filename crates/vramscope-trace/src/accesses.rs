//! Accesses of allocations by kernels, libraries and copies. Only recordings on a phantom GPU have them.

/// Which allocations were accessed, and when.
///
/// A moment is the number of events of the device before the access, as in [`Events`](crate::Events). Accesses by the host, and by launches
/// whose parameters are unknown, are missing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Accesses {
    /// The allocations with at least one access, in the order of device and allocation. All others were never accessed.
    pub allocations: Vec<AllocationAccesses>,
    /// Number of launches, library calls and copies.
    pub launches: u64,
    /// The part of `launches` whose parameters are unknown.
    pub unknown_launches: u64,
}

/// The accesses of one allocation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AllocationAccesses {
    /// The device's number.
    pub device: i64,
    /// Number of the `alloc` event among the events of its device.
    pub allocation: usize,
    /// Moment of the first access.
    pub first: usize,
    /// Moment of the last access.
    pub last: usize,
    /// Number of accesses, at least 1.
    pub count: u64,
    /// The pair of consecutive accesses with the most events between them: their moments. Both are `first` for a single access.
    pub longest_idle: (usize, usize),
}
