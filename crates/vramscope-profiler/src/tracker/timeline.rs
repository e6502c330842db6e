//! Samples grouped by intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::monitor::{MonitorError, Sample, check};
use crate::source::Reading;

/// The memory use over one interval of a [timeline](super::MemoryTracker::memory_timeline).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimelinePoint {
    /// The start of the interval, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The reading of its last sample.
    pub last: Reading,
    /// The peaks since the last sample before the interval, each at its own moment.
    pub high: Reading,
    /// Number of samples in it, at least 1.
    pub samples: u64,
}

/// Groups samples by intervals, starting with the first sample. Intervals without a sample are left out.
pub(super) fn timeline<'s>(
    samples: impl Iterator<Item = &'s Sample>,
    interval: Duration,
) -> Result<Vec<TimelinePoint>, MonitorError> {
    check(interval)?;
    let interval_us = i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    let mut start = None;
    let mut points: BTreeMap<i64, TimelinePoint> = BTreeMap::new();
    for sample in samples {
        let start = *start.get_or_insert(sample.time_us);
        // If the system clock was set back, a sample may be earlier than the start.
        let number = sample.time_us.saturating_sub(start).div_euclid(interval_us);
        let time_us = start.saturating_add(number.saturating_mul(interval_us));
        let (last, high) = (sample.tick.now, sample.tick.high);
        let point = points.entry(number).or_insert(TimelinePoint { time_us, last, high, samples: 0 });
        (point.last, point.high) = (last, point.high.max(high));
        point.samples += 1;
    }
    Ok(points.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Tick;

    fn sample(time_us: i64, now: u64, high: u64) -> Sample {
        let of = |bytes| Reading { allocated: Some(bytes), ..Reading::default() };
        Sample { time_us, tick: Tick { now: of(now), high: of(high), high_is_exact: true }, missed: 0 }
    }

    #[test]
    fn each_interval_has_its_last_and_its_highest() {
        let samples = [(1_000, 1, 1), (1_400, 2, 9), (1_999, 3, 4), (2_000, 4, 4), (9_100, 5, 6)];
        let samples = samples.map(|(time, now, high)| sample(time, now, high));
        let points = timeline(samples.iter(), Duration::from_millis(1)).unwrap();
        let seen: Vec<_> = points
            .iter()
            .map(|p| (p.time_us, p.last.allocated.unwrap(), p.high.allocated.unwrap(), p.samples))
            .collect();
        assert_eq!(seen, [(1_000, 3, 9, 3), (2_000, 4, 4, 1), (9_000, 5, 6, 1)]);
        assert_eq!(timeline([].iter(), Duration::from_secs(1)).unwrap(), []);
        assert!(matches!(timeline(samples.iter(), Duration::ZERO), Err(MonitorError::NoInterval)));
        // A clock that was set back, and intervals longer than all times.
        let back = [sample(i64::MAX, 1, 1), sample(0, 2, 2), sample(i64::MIN, 3, 3)];
        for interval in [Duration::from_micros(1), Duration::from_secs(1), Duration::MAX] {
            let points = timeline(back.iter(), interval).unwrap();
            assert_eq!(points.iter().map(|p| p.samples).sum::<u64>(), 3);
        }
    }
}
