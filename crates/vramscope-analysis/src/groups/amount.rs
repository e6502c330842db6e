//! The total size of a set of allocations.

use crate::history::RecordedAllocation;

/// The total size of a set of allocations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Requested bytes.
    pub requested: u64,
    /// Number of allocations.
    pub count: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.requested += other.requested;
        self.count += other.count;
    }

    #[must_use]
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    /// Subtracts `part`, which must be contained in this amount.
    #[must_use]
    pub(crate) fn minus(self, part: Self) -> Self {
        Self {
            bytes: self.bytes - part.bytes,
            requested: self.requested - part.requested,
            count: self.count - part.count,
        }
    }

    /// Average requested bytes of one allocation; `None` without allocations.
    pub(crate) fn each(&self) -> Option<f64> {
        (self.count > 0).then(|| self.requested as f64 / self.count as f64)
    }
}

impl RecordedAllocation {
    /// Returns the size of this allocation.
    pub(crate) fn amount(&self) -> Amount {
        Amount { bytes: self.size, requested: self.requested, count: 1 }
    }
}
