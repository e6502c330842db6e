//! Analyses of a log of samples: peaks, growth, spikes, memory outside the pool, and unused memory of the pool.
//!
//! - `growing`: quantities that keep growing, by the rule for leaks.
//! - `spikes`: times at which much more memory was in use than usual.
//! - `outside`: memory of the device outside the pool.
//! - `pool_use`: active bytes compared with reserved bytes.
//! - `timeline`: peaks in columns of equal duration.

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
    DeviceMemorySource, Highest, LogEnd, LogEvent, LogEventKind, Look, PhaseSeen, Quantity, SampleLog,
    Series, Values,
};

/// The analysis of one device's samples.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplesSummary {
    /// The device; `None` if the log does not contain it.
    pub device: Option<i64>,
    /// The rank of the process; `None` if the log does not contain it.
    pub rank: Option<i64>,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that were skipped because one took too long.
    pub missed: u64,
    /// Times of the first and the last sample, in microseconds since the Unix epoch.
    pub time_us: Option<(i64, i64)>,
    /// The median time between two samples, in microseconds.
    pub interval_us: u64,
    /// The longest time without a sample, as start and end, if it is much longer than usual.
    pub longest_silence: Option<(i64, i64)>,
    /// The main quantity of the log: allocated bytes or, without a known pool, the best known substitute.
    pub main: Quantity,
    /// All known quantities.
    pub quantities: Vec<QuantityRange>,
    /// Size of the device in bytes.
    pub device_total: Option<u64>,
    /// Source of the device's bytes; `None` if the log does not have it.
    pub device_source: Option<DeviceMemorySource>,
    /// Whether the peaks of allocated and reserved bytes include the time between two samples.
    pub high_is_exact: bool,
    /// Peaks over time, in columns of equal duration; empty values if no sample was taken.
    pub timeline: Vec<Values>,
    /// Growing quantities, most bytes first.
    pub growing: Vec<Growing>,
    /// Spikes, highest first.
    pub spikes: Vec<Spike>,
    /// How much of the pool was in use.
    pub pool: Option<PoolUse>,
    /// Memory on the device outside the pool.
    pub outside: Option<Outside>,
    /// Number of requests that failed for lack of memory.
    pub failed_requests: u64,
    /// How often the allocator released its cache to serve a request.
    pub retries: u64,
    /// The events of the log, each with the values of the last sample before it.
    pub events: Vec<(LogEvent, Values)>,
    /// Phases of the program, highest values first.
    pub phases: Vec<PhaseSeen>,
}

/// A quantity over the whole log, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantityRange {
    /// The quantity.
    pub quantity: Quantity,
    /// The value in the sample with the most allocated bytes. The value between two samples may be higher.
    pub most_seen: Option<u64>,
    /// The peak, with its time.
    pub highest: Highest,
    /// The minimum.
    pub lowest: u64,
    /// The value in the last sample.
    pub last: Option<u64>,
}

/// A time without samples is reported if it is at least this many times longer than usual.
const SILENCE: u64 = 20;

impl SamplesSummary {
    /// Analyzes the samples of one device of a log.
    pub fn of(log: &SampleLog, series: &Series) -> Self {
        let time_us = series.looks.first().zip(series.looks.last()).map(|(a, b)| (a.from_us, b.to_us));
        let interval_us = interval(&series.looks);
        let mut growing = growing::growing(series);
        if log.ended == Some(LogEnd::Gone) {
            // A process that has ended fills no memory any more.
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
            device_source: series.device_source,
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

    /// Returns the range of a quantity, if known.
    pub fn quantity(&self, quantity: Quantity) -> Option<&QuantityRange> {
        self.quantities.iter().find(|range| range.quantity == quantity)
    }

    /// Returns the duration of the log, in microseconds.
    pub fn duration_us(&self) -> u64 {
        self.time_us.map_or(0, |(from, to)| elapsed(from, to))
    }
}

/// Returns the microseconds from one time to another; 0 if `to` is earlier.
fn elapsed(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// Returns the main quantity of the samples.
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

/// Returns the median time between two samples, in microseconds.
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

/// Returns the pool's count or, if the pool does not count, the number of failures in the log.
fn failed_requests(log: &SampleLog, series: &Series) -> u64 {
    let named = log.events.iter().filter(|e| e.kind == LogEventKind::OutOfMemory && is_of(e, series)).count();
    series.failed_requests.max(named as u64)
}

/// Whether an event concerns a device: an event without a device concerns all devices.
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
