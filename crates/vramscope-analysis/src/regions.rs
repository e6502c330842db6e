//! What the annotated regions of a program needed.

use std::collections::BTreeMap;

use crate::history::History;
use crate::region_runs::{RegionRun, region_runs};
use crate::spans::{SpanBytes, Spans};

/// All runs of the regions of one name; a number at its end, as in `ProfilerStep#12`, is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The name of the region, without the number of the run.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Highest allocated bytes in any run.
    pub peak: u64,
    /// The number of the run with that peak, from 0.
    pub peak_run: u64,
    /// Most that allocated bytes rose above where they stood when a run began.
    pub peak_above_start: u64,
    /// Allocated bytes after minus before, summed over all runs. Runs that free what others left behind make it say
    /// little: see [`typical`](Self::typical).
    pub net: i64,
    /// Time inside, summed over all runs, in microseconds.
    pub total_us: i64,
    /// The first run, in which much happens that never does again.
    pub first: RunFigures,
    /// Of each figure the median over the runs behind the first; of a region that ran once, that run.
    pub typical: RunFigures,
    /// The run with the highest peak, the first of several.
    pub largest: RunFigures,
}

/// What one run of a region needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunFigures {
    /// The highest allocated bytes while it was open.
    pub peak: u64,
    /// Most that allocated bytes rose above where they stood when it began.
    pub above_start: u64,
    /// Allocated bytes after it minus those before.
    pub net: i64,
    /// How long it was open, in microseconds.
    pub us: i64,
    /// The numbers of the events within it: from the first up to the one behind the last. `None` of figures of several runs.
    pub events: Option<(usize, usize)>,
}

impl RunFigures {
    /// The median of each figure by itself.
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

/// The regions of a device in order of their first end. What [`region_runs`] leaves out is left out here.
pub fn regions(history: &History) -> Vec<Region> {
    let runs = region_runs(history.trace(), history.device());
    let Some(mut spans) = Spans::of(&runs, history.device()).filter(|_| !runs.is_empty()) else {
        return Vec::new();
    };
    history.walk().for_each(|(moment, c)| spans.see(moment, c.allocated));
    regions_of(history, &runs, spans)
}

/// The regions behind `runs`, whose spans saw the allocated bytes at every moment.
pub(crate) fn regions_of(history: &History, runs: &[RegionRun], spans: Spans) -> Vec<Region> {
    let mut found: BTreeMap<String, (usize, Region, Vec<RunFigures>)> = BTreeMap::new();
    for (run, ((from, to), SpanBytes { before, highest: peak, after })) in runs.iter().zip(spans.seen()) {
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
