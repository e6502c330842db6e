//! Compares the outlines of two parts of timelines: the allocated bytes over moments, from the bytes at the start of each part.

use super::Timeline;
use crate::basics::Both;
use crate::history::Moment;
use vramscope_basics::Cancel;

/// The comparison of two outlines. An outline is the sequence of changes of the allocated bytes; events without a change, such as
/// new segments, are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstDifference {
    /// Number of changes that both outlines have in common before they part.
    pub shared: usize,
    /// The moments right after the first change that differs, if the outlines part. `None` for an outline without any further
    /// change.
    pub moments: Option<Both<Option<Moment>>>,
}

impl FirstDifference {
    /// Compares the moments `from..=to` of two timelines; returns `None` if cancelled.
    #[must_use]
    pub fn of(parts: Both<(&Timeline, [Moment; 2])>, cancel: &Cancel) -> Option<Self> {
        let mut changes = parts.map(|&(timeline, [from, to])| changes(timeline, from, to));
        for shared in 0.. {
            if cancel.is_cancelled_at(shared) {
                return None;
            }
            let next = Both { a: changes.a.next(), b: changes.b.next() };
            let bytes = next.map(|change| change.map(|(_, bytes)| bytes));
            if bytes.a != bytes.b {
                let moments = next.map(|change| change.map(|(moment, _)| moment));
                return Some(Self { shared, moments: Some(moments) });
            }
            if bytes.a.is_none() {
                return Some(Self { shared, moments: None });
            }
        }
        None
    }
}

/// Returns the moments after `from`, up to `to`, at which the allocated bytes change, with the change.
fn changes(timeline: &Timeline, from: Moment, to: Moment) -> impl Iterator<Item = (Moment, i64)> {
    let allocated = |index| timeline.counters_at(Moment::from_index(index)).allocated as i64;
    let last = to.index().min(timeline.moments() - 1);
    (from.index() + 1..=last)
        .map(move |index| (Moment::from_index(index), allocated(index) - allocated(index - 1)))
        .filter(|&(_, change)| change != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::history::History;

    /// A recording that allocates blocks of these sizes; a negative size frees the last block of this size.
    fn timeline(changes: &[i64]) -> Timeline {
        let event = |(number, &change): (usize, &i64)| {
            let made = changes[..=number].iter().rposition(|&made| made == change.abs()).unwrap();
            let action = if change > 0 { "alloc" } else { "free_completed" };
            json!({"action": action, "addr": (made + 1) << 20, "size": change.abs() * 512, "stream": 0})
        };
        let events: Vec<_> = changes.iter().enumerate().map(event).collect();
        let snapshot = json!({"segments": [], "device_traces": [events]});
        let trace = Arc::new(vramscope_trace::formats::read(snapshot.to_string().as_bytes()).unwrap().trace);
        Timeline::of(Arc::new(History::of(&trace, 0)))
    }

    #[test]
    fn outlines_part_at_the_first_change_that_differs() {
        let part = |a: (&Timeline, [usize; 2]), b: (&Timeline, [usize; 2])| {
            let of = |(timeline, moments): (_, [usize; 2])| (timeline, moments.map(Moment::from_index));
            let found = FirstDifference::of(Both { a: of(a), b: of(b) }, &Cancel::default()).unwrap();
            let index = |moment: Option<Moment>| moment.map(Moment::index);
            (found.shared, found.moments.map(|m| (index(m.a), index(m.b))))
        };
        let one = timeline(&[1, 2, -2, 3, 1, 2, -2, 3]);
        // Both halves are the same; the second begins at moment 4.
        assert_eq!(part((&one, [0, 4]), (&one, [4, 8])), (4, None));
        let other = timeline(&[1, 2, 4, -2, 3]);
        assert_eq!(part((&one, [0, 4]), (&other, [0, 5])), (2, Some((Some(3), Some(3)))));
        // One outline ends earlier.
        assert_eq!(part((&one, [0, 2]), (&other, [0, 5])), (2, Some((None, Some(3)))));
        assert_eq!(part((&one, [2, 2]), (&other, [1, 1])), (0, None));
    }
}
