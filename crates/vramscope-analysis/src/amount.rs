//! How much some allocations hold.

/// Some allocations, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Bytes that were asked for.
    pub requested: u64,
    /// How many there are.
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

    /// Without a part of it.
    #[must_use]
    pub(crate) fn minus(self, part: Self) -> Self {
        Self {
            bytes: self.bytes - part.bytes,
            requested: self.requested - part.requested,
            count: self.count - part.count,
        }
    }

    /// Bytes that each asked for, on average.
    pub(crate) fn each(&self) -> Option<f64> {
        (self.count > 0).then(|| self.requested as f64 / self.count as f64)
    }
}
