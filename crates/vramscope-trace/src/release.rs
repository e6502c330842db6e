//! [`TorchRelease`]: releases of PyTorch.

use std::fmt;
use std::str::FromStr;

/// A PyTorch release, by the part of its version on which the allocator's rules depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TorchRelease {
    /// 2 in 2.11.
    pub major: u32,
    /// 11 in 2.11.
    pub minor: u32,
}

impl TorchRelease {
    /// Creates the release `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The first release known to write `max_round_threshold` and pinned host memory. Its search order differs from the order of 2.11.
    pub const WITH_HOST_MEMORY: Self = Self::new(2, 15);
    /// The first release known to write `graph_capture_record_stream_reuse`, and to give every event a compile context and user
    /// metadata.
    pub const WITH_CONTEXTS: Self = Self::new(2, 11);
    /// The first release that prefers the oldest segment (#183591). Known from recordings: 2.11 searches by address, 2.15 by age.
    const BY_AGE: Self = Self::new(2, 13);

    /// A release with the other search order.
    #[must_use]
    pub fn of_other_order(self) -> Self {
        if self.prefers_oldest_segment() { Self::WITH_CONTEXTS } else { Self::WITH_HOST_MEMORY }
    }

    /// Whether the release takes, among free blocks of equal size, the block of the oldest segment. Earlier releases take the block at
    /// the lowest address.
    pub fn prefers_oldest_segment(self) -> bool {
        self >= Self::BY_AGE
    }
}

impl FromStr for TorchRelease {
    type Err = &'static str;

    /// Parses `2.11` or `2.11.0+cu130`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().split('.').map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err("a release is two numbers, such as 2.11"),
        }
    }
}

impl fmt::Display for TorchRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
