//! Positions in a recording.

/// A position between events: moment 0 is before the first event, moment `n` after event number `n - 1`.
///
/// Lifetimes are half-open: what is allocated by event 4 and freed by event 7 lives in moments 5, 6 and 7,
/// and no longer in moment 8.
///
/// ```text
///   event      0     1     2
///   moment  0     1     2     3
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u32);

impl Moment {
    /// The moment before the first event.
    pub const START: Self = Self(0);
    /// Later than every event: where the lifetime of what still lives at the end of the recording ends.
    pub const NEVER: Self = Self(u32::MAX);

    /// The moment right after event number `event`, counted from 0.
    pub fn after(event: usize) -> Self {
        Self(u32::try_from(event).map_or(u32::MAX - 1, |e| e.saturating_add(1).min(u32::MAX - 1)))
    }

    /// Moment number `index`.
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The number of the event right before it; `None` before the first.
    pub fn event(self) -> Option<usize> {
        self.0.checked_sub(1).map(|e| e as usize)
    }

    /// Its number: how many events lie before it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
