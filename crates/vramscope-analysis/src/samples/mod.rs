//! Questions asked of a log of samples: how high, what keeps growing, what stood out, what lies outside of the pool, and what of
//! the pool was never of use.

mod growing;
mod outside;
mod pool_use;
mod spikes;
mod timeline;

pub use growing::Growing;
pub use outside::{Outside, OutsidePart};
pub use pool_use::PoolUse;
pub use spikes::Spike;

use vramscope_trace::samples::{
    Highest, LogEnd, LogEvent, LogEventKind, Look, PhaseSeen, Quantity, SampleLog, Series, Values,
};

/// What is found out about the samples of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplesSummary {
    /// The device; `None` where the log does not say it.
    pub device: Option<i64>,
    /// The rank of the process; `None` where the log does not say it.
    pub rank: Option<i64>,
    /// How many samples there are.
    pub samples: u64,
    /// Samples that were left out because one took too long.
    pub missed: u64,
    /// When the first and the last was taken, in microseconds since the Unix epoch.
    pub time_us: Option<(i64, i64)>,
    /// The usual time between two samples, in microseconds.
    pub interval_us: u64,
    /// The longest time without a sample, where it is much longer than usual: its beginning and its end.
    pub longest_silence: Option<(i64, i64)>,
    /// What the log is about: allocated bytes, or, where no pool is known, the next best.
    pub main: Quantity,
    /// Each quantity that is known.
    pub quantities: Vec<QuantityRange>,
    /// The size of the device.
    pub device_total: Option<u64>,
    /// Whether the highest allocated and reserved bytes saw what was between two samples.
    pub high_is_exact: bool,
    /// The highest values over time, in columns of the same length of time; nothing is known where no sample was taken.
    pub timeline: Vec<Values>,
    /// What keeps growing, most bytes first.
    pub growing: Vec<Growing>,
    /// What stood out, highest first.
    pub spikes: Vec<Spike>,
    /// What of the pool was in use.
    pub pool: Option<PoolUse>,
    /// What lies on the device outside of the pool.
    pub outside: Option<Outside>,
    /// Requests that failed for want of memory.
    pub failed_requests: u64,
    /// How often the allocator gave its cache back to serve a request.
    pub retries: u64,
    /// What happened meanwhile, each with what the last sample before it said.
    pub events: Vec<(LogEvent, Values)>,
    /// Phases of the program, those with the highest values first.
    pub phases: Vec<PhaseSeen>,
}

/// A quantity over the whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantityRange {
    /// Which.
    pub quantity: Quantity,
    /// In the sample in which most was allocated. Between two samples it may have been more.
    pub most_seen: Option<u64>,
    /// The highest, and when.
    pub highest: Highest,
    /// The lowest.
    pub lowest: u64,
    /// In the last sample.
    pub last: Option<u64>,
}

/// How much longer than usual a time without samples is said to be one.
const SILENCE: u64 = 20;

impl SamplesSummary {
    /// Asks everything of the samples of one device of a log.
    pub fn of(log: &SampleLog, series: &Series) -> Self {
        let time_us = series.looks.first().zip(series.looks.last()).map(|(a, b)| (a.from_us, b.to_us));
        let interval_us = interval(&series.looks);
        let mut growing = growing::growing(series);
        if log.ended == Some(LogEnd::Gone) {
            // What has ended fills nothing any more.
            growing.iter_mut().for_each(|growing| growing.full_in_us = None);
        }
        Self {
            device: series.device,
            rank: series.rank,
            samples: series.samples,
            missed: series.missed,
            time_us,
            interval_us,
            longest_silence: longest_silence(&series.looks, interval_us),
            main: main(series),
            quantities: Quantity::ALL.into_iter().filter_map(|quantity| range(series, quantity)).collect(),
            device_total: series.device_total,
            high_is_exact: series.high_is_exact,
            timeline: timeline::timeline(&series.looks, interval_us),
            growing,
            spikes: spikes::spikes(series, main(series)),
            pool: PoolUse::of(series),
            outside: Outside::of(series),
            failed_requests: failed_requests(log, series),
            retries: series.retries,
            events: events(log, series),
            phases: phases(series),
        }
    }

    /// What is known of a quantity.
    pub fn quantity(&self, quantity: Quantity) -> Option<&QuantityRange> {
        self.quantities.iter().find(|range| range.quantity == quantity)
    }

    /// How long the log lasts, in microseconds.
    pub fn duration_us(&self) -> u64 {
        self.time_us.map_or(0, |(from, to)| elapsed(from, to))
    }
}

/// Microseconds from one time to another; none where that is before it.
fn elapsed(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// What the samples are about.
fn main(series: &Series) -> Quantity {
    let best = [Quantity::Allocated, Quantity::ProcessUsed, Quantity::DeviceUsed, Quantity::Reserved];
    best.into_iter().find(|&quantity| series.highest(quantity).is_some()).unwrap_or(Quantity::Cpu)
}

fn range(series: &Series, quantity: Quantity) -> Option<QuantityRange> {
    Some(QuantityRange {
        quantity,
        most_seen: series.most_seen.get(quantity),
        highest: series.highest(quantity)?,
        lowest: series.looks.iter().filter_map(|look| look.lowest.get(quantity)).min()?,
        last: series.last().get(quantity),
    })
}

/// The time between two samples that lies in the middle of all.
fn interval(looks: &[Look]) -> u64 {
    let between = |[a, b]: &[Look; 2]| elapsed(a.from_us, b.from_us) / a.samples.max(1);
    let mut between: Vec<u64> = looks.array_windows().map(between).collect();
    let middle = between.len() / 2;
    if between.is_empty() { 0 } else { *between.select_nth_unstable(middle).1 }
}

fn longest_silence(looks: &[Look], interval_us: u64) -> Option<(i64, i64)> {
    let silences = looks.array_windows().map(|[a, b]| (a.to_us, b.from_us));
    let longest = silences.max_by_key(|&(from, to)| elapsed(from, to))?;
    let is_long = elapsed(longest.0, longest.1) > interval_us.saturating_mul(SILENCE).max(1_000_000);
    is_long.then_some(longest)
}

/// What a pool counted, or, where it counts nothing, the failures that the log names.
fn failed_requests(log: &SampleLog, series: &Series) -> u64 {
    let named = log.events.iter().filter(|e| e.kind == LogEventKind::OutOfMemory && is_of(e, series)).count();
    series.failed_requests.max(named as u64)
}

/// Whether an event is about a device: one of no device is about all.
fn is_of(event: &LogEvent, series: &Series) -> bool {
    let same = |a: Option<i64>, b: Option<i64>| a.is_none() || b.is_none() || a == b;
    same(event.device, series.device) && same(event.rank, series.rank)
}

fn events(log: &SampleLog, series: &Series) -> Vec<(LogEvent, Values)> {
    let before = |time_us: i64| series.looks.iter().rfind(|look| look.from_us <= time_us);
    let of_series = log.events.iter().filter(|event| is_of(event, series));
    of_series.map(|e| (e.clone(), before(e.time_us).map(|look| look.last).unwrap_or_default())).collect()
}

fn phases(series: &Series) -> Vec<PhaseSeen> {
    let main = main(series);
    let mut phases = series.phases.clone();
    phases.sort_by_key(|phase| std::cmp::Reverse(phase.highest.get(main)));
    phases
}
