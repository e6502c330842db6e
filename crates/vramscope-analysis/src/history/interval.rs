//! An interval of a recording, with its allocations.

use super::allocations::{History, RecordedAllocation};
use super::counters::Peak;
use super::moment::Moment;

/// The interval of a recording between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The moment before the first event.
    pub from: Moment,
    /// The moment after the last event.
    pub to: Moment,
    /// The peak of allocated bytes at the moments `from..=to`, with its first moment.
    pub peak: Peak,
    /// The indices of all allocations that are allocated at any of these moments.
    pub allocations: Vec<u32>,
}

impl Interval {
    /// Computes an interval of `history`. The time grows with the length of the recording; a [`Timeline`](crate::Timeline) is
    /// faster.
    #[must_use]
    pub fn of(history: &History, from: Moment, to: Moment) -> Self {
        let mut peak = Peak { bytes: 0, moment: from };
        let moments = history.walk().skip(from.index()).take_while(|(moment, _)| *moment <= to);
        for (moment, counters) in moments {
            if counters.allocated > peak.bytes {
                peak = Peak { bytes: counters.allocated, moment };
            }
        }
        let lives = |a: &RecordedAllocation| a.from <= to && a.freed > from && a.from < a.freed;
        let all = (0u32..).zip(&history.allocations);
        let allocations = all.filter(|(_, a)| lives(a)).map(|(id, _)| id).collect();
        Self { from, to, peak, allocations }
    }
}
