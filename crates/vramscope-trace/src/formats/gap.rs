//! [`Gap`]: where events of a device are missing, found while the file is read.

use std::ops::Range;

/// The positions of a device's events where damaged places of the file may lack events.
#[derive(Debug, Default, Clone)]
pub(super) struct Gap {
    /// Number of damaged places of the file before the last event.
    places: u64,
    events: Option<Range<usize>>,
}

impl Gap {
    /// Notes the event at position `next`, which has `places` damaged places of the file before it.
    pub(super) fn before(&mut self, next: usize, places: u64) {
        if places > self.places {
            self.places = places;
            self.events = Some(self.events.as_ref().map_or(next, |gap| gap.start)..next);
        }
    }

    /// A gap from the first event on, which the damaged places of the file extend.
    pub(super) fn from_start() -> Self {
        Self { places: 0, events: Some(0..0) }
    }

    /// Returns the gap of a device with `events` events in a file with `places` damaged places.
    pub(super) fn finish(mut self, events: usize, places: u64) -> Option<Range<usize>> {
        self.before(events, places);
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_spans_all_damaged_places() {
        let mut gap = Gap::default();
        (0..3).for_each(|next| gap.before(next, 0));
        assert_eq!(gap.clone().finish(3, 0), None);
        assert_eq!(gap.clone().finish(3, 2), Some(3..3));
        gap.before(3, 1);
        gap.before(4, 1);
        assert_eq!(gap.clone().finish(5, 1), Some(3..3));
        gap.before(5, 3);
        assert_eq!(gap.finish(9, 3), Some(3..5));
    }
}
