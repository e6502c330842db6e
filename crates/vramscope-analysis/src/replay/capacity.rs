//! The device of a replay, and its size.

/// The size of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// All bytes of the device.
    pub total: u64,
    /// Bytes of these that the allocator cannot have: contexts, other processes.
    pub overhead: u64,
}

/// The device that a recording is replayed on. It means the same under the recorded rules and under any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayDevice {
    /// The recorded device, with the size of [`Replay::recorded_capacity`](super::Replay::recorded_capacity). A recording that
    /// never ran out of memory does not show the size: then every request finds memory, and under the recorded rules memory is
    /// given back where it was given back in the recording.
    Recorded,
    /// A device of 16 TiB, larger than any recording needs. Limits by fraction do not hold.
    Unlimited,
    /// A device of this size.
    Of(Capacity),
}

impl ReplayDevice {
    /// Its size; `None` for the recorded device.
    pub(super) fn capacity(self) -> Option<Capacity> {
        match self {
            Self::Recorded => None,
            Self::Unlimited => Some(Capacity { total: UNLIMITED, overhead: 0 }),
            Self::Of(capacity) => Some(capacity),
        }
    }

    /// Its size is known, so that a part of it is a limit.
    pub(super) fn has_limits(self) -> bool {
        matches!(self, Self::Of(_))
    }
}

impl From<Capacity> for ReplayDevice {
    fn from(capacity: Capacity) -> Self {
        Self::Of(capacity)
    }
}

/// Bytes of [`ReplayDevice::Unlimited`].
pub(super) const UNLIMITED: u64 = 1 << 44;
