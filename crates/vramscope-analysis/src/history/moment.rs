//! Positions in a recording.

/// A position between events: moment 0 is before the first event, moment `n` is after event `n - 1`.
///
/// Lifetimes are half-open: an allocation made by event 4 and freed by event 7 is live at moments 5, 6 and 7, but not at moment
/// 8.
///
/// ```text
///   event      0     1     2
///   moment  0     1     2     3
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u32);

/// A moment that a request chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Right after the event with this index, counted from 0.
    After(usize),
    /// At the end of the recording: after all events of all devices, of other libraries and of the driver.
    End,
}

impl Moment {
    /// The moment before the first event.
    pub const START: Self = Self(0);
    /// A moment after every event: the end of all lifetimes that do not end in the recording.
    pub const NEVER: Self = Self(u32::MAX);

    /// The moment right after event `event`, counted from 0.
    pub fn after(event: usize) -> Self {
        Self(u32::try_from(event).map_or(u32::MAX - 1, |e| e.saturating_add(1).min(u32::MAX - 1)))
    }

    /// The moment with this index.
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the index of the event right before this moment; `None` for the first moment.
    pub fn event(self) -> Option<usize> {
        self.0.checked_sub(1).map(|e| e as usize)
    }

    /// Returns the index of the moment: the number of events before it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
