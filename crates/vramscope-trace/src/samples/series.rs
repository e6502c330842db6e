//! The samples of one device, in bounded memory.

use super::quantity::{Quantity, Values};

/// Samples of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The device; `None` where the log does not say it.
    pub device: Option<i64>,
    /// The rank of the process; `None` where the log does not say it.
    pub rank: Option<i64>,
    /// The samples in the order of the file. In a long log several samples in a row are one look.
    pub looks: Vec<Look>,
    /// How many samples there were.
    pub samples: u64,
    /// Samples that were left out because one took too long.
    pub missed: u64,
    /// The size of the device, in bytes.
    pub device_total: Option<u64>,
    /// The highest of each quantity, and when.
    pub highest: [Option<Highest>; Quantity::ALL.len()],
    /// The sample in which most was allocated. Between two samples it may have been more.
    pub most_seen: Values,
    /// Whether the highest allocated and reserved bytes saw all that was between two samples.
    pub high_is_exact: bool,
    /// Requests that failed for want of memory meanwhile.
    pub failed_requests: u64,
    /// How often the allocator gave its cache back to serve a request.
    pub retries: u64,
    /// Phases in the order in which they were first seen, at most [`Series::MOST_PHASES`].
    pub phases: Vec<PhaseSeen>,
}

/// Some samples in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// When the first and the last was taken, in microseconds since the Unix epoch.
    pub from_us: i64,
    /// See `from_us`.
    pub to_us: i64,
    /// How many samples they are.
    pub samples: u64,
    /// What the last one says.
    pub last: Values,
    /// The lowest that was seen.
    pub lowest: Values,
    /// The highest: of what was seen, and of what a pool says was in between.
    pub highest: Values,
    /// The phase in which most was allocated, as its place in [`Series::phases`].
    pub phase: Option<u32>,
}

/// The highest value of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highest {
    /// How much.
    pub bytes: u64,
    /// The time of the sample that says it, in microseconds since the Unix epoch.
    pub time_us: i64,
}

/// A phase that the program said it was in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSeen {
    /// Its path, such as `epoch / step`.
    pub path: String,
    /// How many samples were taken in it.
    pub samples: u64,
    /// The highest that these samples say.
    pub highest: Values,
}

/// One sample.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) time_us: i64,
    pub(crate) now: Values,
    /// The highest since the sample before, where the log says it.
    pub(crate) high: Values,
    pub(crate) high_is_exact: bool,
    pub(crate) device_total: Option<u64>,
    pub(crate) missed: u64,
    pub(crate) phases: Vec<String>,
}

impl Series {
    /// The most phases that are told apart.
    pub const MOST_PHASES: usize = 1000;

    pub(crate) fn new(device: Option<i64>, rank: Option<i64>) -> Self {
        Self {
            device,
            rank,
            looks: Vec::new(),
            samples: 0,
            missed: 0,
            device_total: None,
            highest: [None; Quantity::ALL.len()],
            most_seen: Values::default(),
            high_is_exact: true,
            failed_requests: 0,
            retries: 0,
            phases: Vec::new(),
        }
    }

    /// The highest of a quantity, and when.
    pub fn highest(&self, quantity: Quantity) -> Option<Highest> {
        self.highest[quantity as usize]
    }

    /// What the last sample says.
    pub fn last(&self) -> Values {
        self.looks.last().map(|look| look.last).unwrap_or_default()
    }

    /// Takes in the next sample, so that at most `together` are one look.
    pub(crate) fn push(&mut self, sample: Sample, together: u64) {
        let now = sample.now.with_differences();
        let highest = now.max(sample.high);
        self.samples += 1;
        self.missed = self.missed.saturating_add(sample.missed);
        self.high_is_exact &= sample.high_is_exact;
        self.device_total = self.device_total.max(sample.device_total);
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

    /// Makes one look of each two in a row.
    pub(crate) fn halve(&mut self) {
        let pair = |pair: &[Look]| match *pair {
            [a, b] => Some(a.and(b)),
            [a] => Some(a),
            _ => None,
        };
        self.looks = self.looks.chunks(2).filter_map(pair).collect();
    }

    fn phase(&mut self, path: String) -> Option<u32> {
        // Programs have few, and mostly it is the one before.
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
    /// This one and the one behind it.
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
    fn looks_of_several_samples_keep_what_was_lowest_and_highest() {
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
