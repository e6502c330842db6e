//! The device of a replay, and its size.

/// The size of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Size of the device in bytes.
    pub total: u64,
    /// Bytes that the allocator cannot use: contexts, other processes.
    pub overhead: u64,
}

/// The device for a replay. It has the same meaning under the recorded rules and under all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayDevice {
    /// The recorded device, with the size of [`Replay::recorded_capacity`](super::Replay::recorded_capacity). A recording that
    /// never ran out of memory does not show the size. Then every request succeeds, and under the recorded rules memory is
    /// released where it was released in the recording.
    Recorded,
    /// A device of 16 TiB, larger than any recording needs. Limits by fraction do not apply.
    Unlimited,
    /// A device of this size.
    Of(Capacity),
}

impl ReplayDevice {
    /// Returns the size; `None` for the recorded device.
    pub(super) fn capacity(self) -> Option<Capacity> {
        match self {
            Self::Recorded => None,
            Self::Unlimited => Some(Capacity { total: UNLIMITED, overhead: 0 }),
            Self::Of(capacity) => Some(capacity),
        }
    }

    /// Whether the size is known, so that limits by fraction apply.
    pub(super) fn has_limits(self) -> bool {
        matches!(self, Self::Of(_))
    }
}

impl From<Capacity> for ReplayDevice {
    fn from(capacity: Capacity) -> Self {
        Self::Of(capacity)
    }
}

/// The size of [`ReplayDevice::Unlimited`] in bytes.
pub(super) const UNLIMITED: u64 = 1 << 44;
