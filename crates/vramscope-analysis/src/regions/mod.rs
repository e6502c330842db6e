//! The memory that the annotated regions of a program needed.
//!
//! - `runs`: the runs of regions, with start and end times, or as intervals of moments.
//! - `run_bytes`: bytes before, within and after each run, in one walk over all moments.

mod run_bytes;
mod runs;

use std::collections::BTreeMap;

use crate::history::History;
use run_bytes::RunBytes;
pub(crate) use run_bytes::RunBytesWalk;
pub(crate) use runs::moments_of;
pub use runs::{RegionRun, RunBetween, region_runs, runs_between};

/// All runs of the regions with one name; a number at the end of the name, as in `ProfilerStep#12`, is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The name of the region, without the number of the run.
    pub name: String,
    /// Number of runs.
    pub count: u64,
    /// Peak of allocated bytes in any run.
    pub peak: u64,
    /// The index of the run with that peak, from 0.
    pub peak_run: u64,
    /// The largest rise of allocated bytes above the value at the start of a run.
    pub peak_above_start: u64,
    /// Allocated bytes after minus before, summed over all runs. Runs that free memory of other code distort it: see
    /// [`typical`](Self::typical).
    pub net: i64,
    /// Time inside, summed over all runs, in microseconds.
    pub total_us: i64,
    /// The first run, which often does work that no later run repeats.
    pub first: RunFigures,
    /// The median of each figure over the runs after the first; for a region with a single run, that run.
    pub typical: RunFigures,
    /// The run with the highest peak; the first of several.
    pub largest: RunFigures,
}

/// The memory that one run of a region needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunFigures {
    /// Peak of allocated bytes during the run.
    pub peak: u64,
    /// The largest rise of allocated bytes above the value at the start.
    pub above_start: u64,
    /// Allocated bytes after the run minus those before it.
    pub net: i64,
    /// Duration in microseconds.
    pub us: i64,
    /// The indices of its events, as a half-open range. `None` for figures of several runs.
    pub events: Option<(usize, usize)>,
}

impl RunFigures {
    /// Computes the median of each figure separately.
    fn median(runs: &[Self]) -> Self {
        fn middle<T: Ord + Copy + Default>(runs: &[RunFigures], of: fn(&RunFigures) -> T) -> T {
            let mut values: Vec<T> = runs.iter().map(of).collect();
            values.sort_unstable();
            values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
        }
        Self {
            peak: middle(runs, |r| r.peak),
            above_start: middle(runs, |r| r.above_start),
            net: middle(runs, |r| r.net),
            us: middle(runs, |r| r.us),
            events: None,
        }
    }
}

/// Returns the regions of a device in order of their first end. Runs that [`region_runs`] leaves out are left out here too.
pub fn regions(history: &History) -> Vec<Region> {
    let runs = region_runs(history.trace(), history.device());
    let Some(moments) = moments_of(&runs, history.device()) else { return Vec::new() };
    let mut intervals = RunBytesWalk::of(moments);
    history.walk().for_each(|(moment, c)| intervals.see(moment, c.allocated));
    regions_of(history, &runs, intervals)
}

/// Returns the regions of `runs`, whose intervals have seen the allocated bytes at every moment.
pub(crate) fn regions_of(history: &History, runs: &[RegionRun], intervals: RunBytesWalk) -> Vec<Region> {
    let mut found: BTreeMap<String, (usize, Region, Vec<RunFigures>)> = BTreeMap::new();
    for (run, ((from, to), RunBytes { before, peak, after })) in runs.iter().zip(intervals.seen()) {
        let name = without_number(history.trace().strings.get(run.name));
        let order = found.len();
        let (_, region, each) =
            found.entry(name.to_owned()).or_insert_with(|| (order, Region::named(name), Vec::new()));
        if peak > region.peak {
            region.peak = peak;
            region.peak_run = region.count;
        }
        let figures = RunFigures {
            peak,
            above_start: peak - before,
            net: after as i64 - before as i64,
            us: run.end_us.saturating_sub(run.start_us),
            events: Some((from as usize, to as usize)),
        };
        each.push(figures);
        region.count += 1;
        region.peak_above_start = region.peak_above_start.max(figures.above_start);
        region.net = region.net.saturating_add(figures.net);
        region.total_us = region.total_us.saturating_add(figures.us);
    }
    let mut out: Vec<(usize, Region, Vec<RunFigures>)> = found.into_values().collect();
    out.sort_by_key(|(order, ..)| *order);
    let told = |(_, region, each): (usize, Region, Vec<RunFigures>)| {
        let first = each.first().copied().unwrap_or_default();
        let largest = each.get(region.peak_run as usize).copied().unwrap_or_default();
        let typical = if each.len() > 1 { RunFigures::median(&each[1..]) } else { first };
        Region { first, typical, largest, ..region }
    };
    out.into_iter().map(told).collect()
}

impl Region {
    fn named(name: &str) -> Self {
        let name = name.to_owned();
        let none = RunFigures::default();
        let (first, typical, largest) = (none, none, none);
        Self {
            name,
            count: 0,
            peak: 0,
            peak_run: 0,
            peak_above_start: 0,
            net: 0,
            total_us: 0,
            first,
            typical,
            largest,
        }
    }
}

pub(crate) fn without_number(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((stem, n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    }
}
