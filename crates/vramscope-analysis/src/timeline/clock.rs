//! The times of a recording's events.

use vramscope_trace::{DeviceTrace, Events};

use crate::history::rising_times;

/// Microseconds of each event after the first, never decreasing. Its methods must get the events that it was made from.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    first: i64,
    /// Corrected times if the recorder's clock stepped back; most recordings need no copy.
    mended: Option<Vec<i64>>,
}

impl Clock {
    /// Returns `None` if there are no events, or if the time of an event is unknown.
    pub(super) fn of(device: &DeviceTrace) -> Option<Self> {
        let events = &device.events;
        let first = events.times().next()??;
        let (mut is_whole, mut rises) = (true, true);
        for (rising, time) in rising_times(device).zip(events.times()) {
            is_whole &= rising.is_some();
            rises &= rising == time;
        }
        let mended = if is_whole && !rises { rising_times(device).collect() } else { None };
        is_whole.then_some(Self { first, mended })
    }

    /// Returns the time of event `i`.
    pub(super) fn get(&self, events: &Events, i: usize) -> Option<i64> {
        let time = match &self.mended {
            Some(times) => times.get(i).copied(),
            None => events.time(i),
        };
        time.map(|time| time.saturating_sub(self.first))
    }

    /// Returns the time of the last event.
    pub(super) fn last(&self, events: &Events) -> i64 {
        events.len().checked_sub(1).and_then(|last| self.get(events, last)).unwrap_or_default()
    }

    /// Returns the number of events before the first one for which `before` is false.
    pub(super) fn partition_point(&self, events: &Events, before: impl Fn(i64) -> bool) -> usize {
        let (mut low, mut high) = (0, events.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(events, middle).is_some_and(&before) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use vramscope_trace::{Action, Event, TagsTable};

    use super::*;

    fn device(times: &[Option<i64>]) -> DeviceTrace {
        let tags = TagsTable::default().intern(Default::default()).unwrap();
        let event = |&time_us: &Option<i64>| Event {
            action: Action::Snapshot,
            address_or_free: 0,
            size: 0,
            time_us,
            stack: None,
            tags,
        };
        DeviceTrace { events: times.iter().map(event).collect(), ..DeviceTrace::default() }
    }

    #[test]
    fn times_never_fall_and_count_from_the_first() {
        for (times, expected) in [(&[10, 12, 12, 30], [0, 2, 2, 20]), (&[10, 30, 12, 40], [0, 20, 20, 30])] {
            let device = device(&times.map(Some));
            let clock = Clock::of(&device).unwrap();
            assert_eq!([0, 1, 2, 3].map(|i| clock.get(&device.events, i).unwrap()), expected);
            assert_eq!((clock.get(&device.events, 4), clock.last(&device.events)), (None, expected[3]));
            for t in 0..42 {
                let before = |time: i64| time <= t;
                let found = clock.partition_point(&device.events, before);
                assert_eq!(found, expected.partition_point(|&time| before(time)));
            }
        }
    }

    #[test]
    fn a_missing_time_stops_the_clock() {
        assert!(Clock::of(&device(&[])).is_none());
        assert!(Clock::of(&device(&[Some(1), None, Some(3)])).is_none());
        assert!(Clock::of(&device(&[None, Some(3)])).is_none());
    }
}
