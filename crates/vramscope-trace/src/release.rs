//! Releases of PyTorch.

use std::fmt;
use std::str::FromStr;

/// A PyTorch release, as far as its allocator's rules depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TorchRelease {
    /// 2 of 2.11.
    pub major: u32,
    /// 11 of 2.11.
    pub minor: u32,
}

impl TorchRelease {
    /// Release `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The first release seen to write `max_round_threshold`, and pinned host memory beside
    /// devices. By its order of search it is told from 2.11.
    pub const WITH_HOST_MEMORY: Self = Self::new(2, 15);
    /// The first release seen to write `graph_capture_record_stream_reuse`, and a compile
    /// context and user metadata with every event.
    pub const WITH_CONTEXTS: Self = Self::new(2, 11);
    /// The first release that prefers the oldest segment (#183591). Seen in recordings: 2.11 by address, 2.15 by
    /// age.
    const BY_AGE: Self = Self::new(2, 13);

    /// A release whose order of search is the other one, as far as releases were compared.
    #[must_use]
    pub fn of_other_order(self) -> Self {
        if self.prefers_oldest_segment() { Self::WITH_CONTEXTS } else { Self::WITH_HOST_MEMORY }
    }

    /// Among free blocks of one size it takes that of the segment that was taken first; releases before it, the one
    /// at the lowest address.
    pub fn prefers_oldest_segment(self) -> bool {
        self >= Self::BY_AGE
    }
}

impl FromStr for TorchRelease {
    type Err = &'static str;

    /// `2.11`, or `2.11.0+cu130`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().split('.').map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err("a release is two numbers, as 2.11"),
        }
    }
}

impl fmt::Display for TorchRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
