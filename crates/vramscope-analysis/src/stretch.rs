//! A part of a recording, and what is allocated in it.

use crate::counters::Peak;
use crate::history::{Allocation, History};
use crate::moment::Moment;

/// The part of a recording between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The moment before its first event.
    pub from: Moment,
    /// The moment after its last.
    pub to: Moment,
    /// The most allocated bytes at any of its moments, these two among them, and the first such moment.
    pub highest: Peak,
    /// The numbers of all that was allocated at any of them.
    pub allocations: Vec<u32>,
}

impl Stretch {
    /// The stretch of `history` from one moment to another. It takes time that grows with the recording: a
    /// [`Timeline`](crate::Timeline) tells it sooner.
    #[must_use]
    pub fn of(history: &History, from: Moment, to: Moment) -> Self {
        let mut highest = Peak { bytes: 0, moment: from };
        let moments = history.walk().skip(from.index()).take_while(|(moment, _)| *moment <= to);
        for (moment, counters) in moments {
            if counters.allocated > highest.bytes {
                highest = Peak { bytes: counters.allocated, moment };
            }
        }
        let lives = |a: &Allocation| a.from <= to && a.freed > from && a.from < a.freed;
        let all = (0u32..).zip(&history.allocations);
        let allocations = all.filter(|(_, a)| lives(a)).map(|(id, _)| id).collect();
        Self { from, to, highest, allocations }
    }
}
