//! [`Series`]: the samples of one device, in bounded memory.

use super::device_source::DeviceMemorySource;
use super::quantity::{Quantity, Values};

/// The samples of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The device, or `None` if the log does not have it.
    pub device: Option<i64>,
    /// The process's rank, or `None` if the log does not have it.
    pub rank: Option<i64>,
    /// The samples in file order. In a long log, one look merges several consecutive samples.
    pub looks: Vec<Look>,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples skipped because an earlier sample took too long.
    pub missed: u64,
    /// Size of the device in bytes.
    pub device_total: Option<u64>,
    /// Source of the device's bytes, in the last sample that has it.
    pub device_source: Option<DeviceMemorySource>,
    /// Highest value of each quantity, with its time.
    pub highest: [Option<Highest>; Quantity::ALL.len()],
    /// The sample with the highest allocated bytes. Between samples the value may have been higher.
    pub most_seen: Values,
    /// Whether the highest allocated and reserved bytes include all changes between samples.
    pub high_is_exact: bool,
    /// Number of requests that failed with out of memory.
    pub failed_requests: u64,
    /// Number of times the allocator released its cache to serve a request.
    pub retries: u64,
    /// Phases in order of first appearance, at most [`Series::MOST_PHASES`].
    pub phases: Vec<PhaseSeen>,
}

/// One or more consecutive samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Time of the first sample, in microseconds since the Unix epoch.
    pub from_us: i64,
    /// Time of the last sample, in microseconds since the Unix epoch.
    pub to_us: i64,
    /// Number of samples.
    pub samples: u64,
    /// Values of the last sample.
    pub last: Values,
    /// Lowest sampled values.
    pub lowest: Values,
    /// Highest values: of the samples, and of the pool's counters between samples.
    pub highest: Values,
    /// Phase with the highest allocated bytes, as an index of [`Series::phases`].
    pub phase: Option<u32>,
}

/// The highest value of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highest {
    /// The value in bytes.
    pub bytes: u64,
    /// Time of the sample that reported it, in microseconds since the Unix epoch.
    pub time_us: i64,
}

/// A phase that the program reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSeen {
    /// Path of the phase, such as `epoch / step`.
    pub path: String,
    /// Number of samples in the phase.
    pub samples: u64,
    /// Highest values in these samples.
    pub highest: Values,
}

/// One sample.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) time_us: i64,
    pub(crate) now: Values,
    /// Highest values since the previous sample, if the log has them.
    pub(crate) high: Values,
    pub(crate) high_is_exact: bool,
    pub(crate) device_total: Option<u64>,
    pub(crate) device_source: Option<DeviceMemorySource>,
    pub(crate) missed: u64,
    pub(crate) phases: Vec<String>,
}

impl Series {
    /// Maximum number of distinct phases.
    pub const MOST_PHASES: usize = 1000;

    pub(crate) fn new(device: Option<i64>, rank: Option<i64>) -> Self {
        Self {
            device,
            rank,
            looks: Vec::new(),
            samples: 0,
            missed: 0,
            device_total: None,
            device_source: None,
            highest: [None; Quantity::ALL.len()],
            most_seen: Values::default(),
            high_is_exact: true,
            failed_requests: 0,
            retries: 0,
            phases: Vec::new(),
        }
    }

    /// Returns the highest value of a quantity, with its time.
    pub fn highest(&self, quantity: Quantity) -> Option<Highest> {
        self.highest[quantity as usize]
    }

    /// Values of the last sample.
    pub fn last(&self) -> Values {
        self.looks.last().map(|look| look.last).unwrap_or_default()
    }

    /// Adds the next sample. At most `together` samples are merged into one look.
    pub(crate) fn push(&mut self, sample: Sample, together: u64) {
        let now = sample.now.with_differences();
        let highest = now.max(sample.high);
        self.samples += 1;
        self.missed = self.missed.saturating_add(sample.missed);
        self.high_is_exact &= sample.high_is_exact;
        self.device_total = self.device_total.max(sample.device_total);
        self.device_source = sample.device_source.or(self.device_source);
        for quantity in Quantity::ALL {
            let Some(bytes) = highest.get(quantity) else { continue };
            let before = &mut self.highest[quantity as usize];
            if before.is_none_or(|before| bytes > before.bytes) {
                *before = Some(Highest { bytes, time_us: sample.time_us });
            }
        }
        if now.get(Quantity::Allocated) > self.most_seen.get(Quantity::Allocated) {
            self.most_seen = now;
        }
        let mut phase = None;
        for path in sample.phases {
            let Some(place) = self.phase(path) else { continue };
            phase = Some(place);
            if let Some(seen) = self.phases.get_mut(place as usize) {
                seen.samples += 1;
                seen.highest = seen.highest.max(highest);
            }
        }
        let look = Look {
            from_us: sample.time_us,
            to_us: sample.time_us,
            samples: 1,
            last: now,
            lowest: now,
            highest,
            phase,
        };
        match self.looks.last_mut() {
            Some(last) if last.samples < together => *last = last.and(look),
            _ => self.looks.push(look),
        }
    }

    /// Merges every two consecutive looks into one.
    pub(crate) fn halve(&mut self) {
        let pair = |pair: &[Look]| match *pair {
            [a, b] => Some(a.and(b)),
            [a] => Some(a),
            _ => None,
        };
        self.looks = self.looks.chunks(2).filter_map(pair).collect();
    }

    fn phase(&mut self, path: String) -> Option<u32> {
        // Programs have few phases, and usually the last one matches.
        let place = self.phases.iter().rposition(|seen| seen.path == path).or_else(|| {
            (self.phases.len() < Self::MOST_PHASES).then(|| {
                self.phases.push(PhaseSeen { path, samples: 0, highest: Values::default() });
                self.phases.len() - 1
            })
        });
        place.map(|place| place as u32)
    }
}

impl Look {
    /// Merges this look with the next one.
    fn and(self, next: Self) -> Self {
        let allocated = |look: &Self| look.highest.get(Quantity::Allocated);
        let phase = if allocated(&next) > allocated(&self) { next.phase } else { self.phase };
        Self {
            from_us: self.from_us,
            to_us: next.to_us,
            samples: self.samples + next.samples,
            last: next.last.or(self.last),
            lowest: self.lowest.min(next.lowest),
            highest: self.highest.max(next.highest),
            phase,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time_us: i64, allocated: u64, high: u64) -> Sample {
        let mut sample = Sample { time_us, ..Sample::default() };
        sample.now.set(Quantity::Allocated, Some(allocated));
        sample.high.set(Quantity::Allocated, Some(high));
        sample
    }

    #[test]
    fn merged_samples_keep_the_lowest_and_highest_values() {
        let mut series = Series::new(None, None);
        for (time, allocated, high) in [(1, 5, 9), (2, 3, 7), (3, 4, 20), (4, 8, 8), (5, 1, 1)] {
            series.push(sample(time, allocated, high), 2);
        }
        let allocated = |of: &Values| of.get(Quantity::Allocated).unwrap_or(0);
        let seen: Vec<_> = series
            .looks
            .iter()
            .map(|l| (l.from_us, l.to_us, l.samples, allocated(&l.lowest), allocated(&l.highest)))
            .collect();
        assert_eq!(seen, [(1, 2, 2, 3, 9), (3, 4, 2, 4, 20), (5, 5, 1, 1, 1)]);
        series.halve();
        assert_eq!((series.looks.len(), series.looks[0].samples, series.samples), (2, 4, 5));
        assert_eq!(series.highest(Quantity::Allocated), Some(Highest { bytes: 20, time_us: 3 }));
        assert_eq!((allocated(&series.most_seen), allocated(&series.last())), (8, 1));
    }
}
