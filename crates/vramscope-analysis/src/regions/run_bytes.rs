//! Byte values before, within and after intervals of a recording, in one walk over all moments.

use crate::history::Moment;

/// The bytes before, within and after an interval of moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunBytes {
    pub(crate) before: u64,
    /// The peak from the first moment of the interval to its last.
    pub(crate) peak: u64,
    pub(crate) after: u64,
}

/// Intervals of moments that are fed one value per moment.
///
/// The values are not stored in a column. Only values above all later ones can still be the peak of an interval that ends later,
/// so only those are kept.
#[derive(Debug, Default)]
pub(crate) struct RunBytesWalk {
    /// The first and the last moment of each interval.
    intervals: Vec<(u32, u32)>,
    seen: Vec<RunBytes>,
    /// Indices of the intervals by first moment, and by last moment; the next one is last.
    by_first: Vec<u32>,
    by_last: Vec<u32>,
    /// Moments and values: moments ascending, values descending.
    falling: Vec<(u32, u64)>,
}

impl RunBytesWalk {
    /// Starts a walk for intervals, each with its first and its last moment.
    pub(crate) fn of(intervals: Vec<(u32, u32)>) -> Self {
        let in_order_of = |key: &dyn Fn(u32) -> u32| {
            let mut numbers: Vec<u32> = (0..intervals.len() as u32).collect();
            numbers.sort_by_key(|&number| std::cmp::Reverse(key(number)));
            numbers
        };
        let by_first = in_order_of(&|number| intervals[number as usize].0);
        let by_last = in_order_of(&|number| intervals[number as usize].1);
        Self {
            seen: vec![RunBytes::default(); intervals.len()],
            intervals,
            by_first,
            by_last,
            falling: Vec::new(),
        }
    }

    /// Feeds the value at the next moment.
    #[inline]
    pub(crate) fn see(&mut self, moment: Moment, value: u64) {
        if !self.by_last.is_empty() {
            self.see_next(moment.index() as u32, value);
        }
    }

    fn see_next(&mut self, moment: u32, value: u64) {
        while self.falling.pop_if(|last| last.1 <= value).is_some() {}
        self.falling.push((moment, value));
        while let Some(number) = self.by_first.pop_if(|number| self.intervals[*number as usize].0 == moment) {
            self.seen[number as usize].before = value;
        }
        while let Some(number) = self.by_last.pop_if(|number| self.intervals[*number as usize].1 == moment) {
            let (first, _) = self.intervals[number as usize];
            let highest = self.falling.partition_point(|&(at, _)| at < first);
            let seen = &mut self.seen[number as usize];
            seen.peak = self.falling.get(highest).map_or(value, |&(_, highest)| highest);
            seen.after = value;
        }
    }

    /// Returns the first and the last moment of each interval with its values, in the order of the runs.
    pub(crate) fn seen(self) -> impl Iterator<Item = ((u32, u32), RunBytes)> {
        self.intervals.into_iter().zip(self.seen)
    }
}

#[cfg(test)]
mod tests {
    use vramscope_trace::{Action, DeviceTrace, Event, Events, TagsTable};

    use super::super::runs::{RegionRun, moments_of};
    use super::*;
    use crate::basics::{Column, RangeMax};
    use crate::history::event_times;

    #[test]
    fn the_highest_and_lowest_of_intervals_equal_a_scan_of_all_values() {
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let tags = TagsTable::default().intern(vramscope_trace::Tags::default()).unwrap();
        // The clock sometimes steps back.
        let event = |time: u64| Event {
            action: Action::Alloc,
            address_or_free: 0,
            size: 0,
            time_us: Some(time as i64),
            stack: None,
            tags,
        };
        let events: Events = (0..500).map(|i| event(i / 3 * 4 + random(9))).collect();
        let device = DeviceTrace { events, ..DeviceTrace::default() };
        let mut strings = vramscope_trace::StringTable::default();
        let name = strings.intern("step").unwrap();
        let runs: Vec<RegionRun> = (0..300)
            .map(|_| {
                let start_us = random(800) as i64 - 50;
                RegionRun { name, depth: 0, start_us, end_us: start_us + random(400) as i64 - 20 }
            })
            .collect();
        let values: Vec<u64> = (0..501).map(|_| random(40)).collect();
        let mut intervals = RunBytesWalk::of(moments_of(&runs, &device).unwrap());
        for (moment, &value) in values.iter().enumerate() {
            intervals.see(Moment::from_index(moment), value);
        }
        let times = event_times(&device).unwrap();
        let mut column = Column::of_sums(1, values.len());
        values.iter().for_each(|&value| column.push(value));
        let column = RangeMax::new(column);
        for (run, ((begin, end), seen)) in runs.iter().zip(intervals.seen()) {
            let (first, last) = run.moments(&times);
            assert_eq!((begin as usize, end as usize), (first, last));
            let value = |moment: usize| column.values().get(moment).unwrap();
            let expected =
                RunBytes { before: value(first), peak: column.highest(first, last), after: value(last) };
            assert_eq!(seen, expected, "{run:?}");
        }
    }
}
