//! What the annotated regions of a program needed.

use std::collections::BTreeMap;

use vramscope_trace::{DeviceTrace, Stage, StringId, Trace};

use crate::history::History;

/// One run of an annotated region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionRun {
    /// The name, with its number.
    pub name: StringId,
    /// When it began, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// When it ended.
    pub end_us: i64,
}

/// The runs of regions on `device`, in order of their ends. An end without a start, or the other way round, is
/// left out; so are regions of other devices and those without a time.
pub fn region_runs(trace: &Trace, device: &DeviceTrace) -> Vec<RegionRun> {
    let mut open: BTreeMap<StringId, Vec<i64>> = BTreeMap::new();
    let mut runs = Vec::new();
    for a in trace.annotations.iter().flatten().filter(|a| a.device == device.device || a.device < 0) {
        let Some(time) = a.time_us else { continue };
        match a.stage {
            Stage::Start => open.entry(a.name).or_default().push(time),
            Stage::End => {
                if let Some(start) = open.get_mut(&a.name).and_then(Vec::pop) {
                    runs.push(RegionRun { name: a.name, start_us: start, end_us: time });
                }
            }
        }
    }
    runs
}

/// All runs of the regions of one name; a number at its end, as in `ProfilerStep#12`, is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The name.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Highest allocated bytes in any run, and the run it was in, from 0.
    pub peak: u64,
    /// When.
    pub peak_run: u64,
    /// Most that allocated bytes rose above where they stood when a run began.
    pub peak_above_start: u64,
    /// Allocated bytes after minus before, summed over all runs.
    pub net: i64,
    /// Time inside, summed over all runs, in microseconds.
    pub total_us: i64,
}

/// The regions of a device in order of first start. What [`region_runs`] leaves out is left out here.
///
/// Regions and events share no number, only the clock: an event counts to a region that was open when it
/// happened, to the microsecond.
pub fn regions(history: &History<'_>) -> Vec<Region> {
    if history.trace.annotations.as_ref().is_none_or(Vec::is_empty) {
        return Vec::new();
    }
    let Some(times) = event_times(history.device) else { return Vec::new() };
    let allocated: Vec<u64> = history.walk().map(|(_, c)| c.allocated).collect();
    let highest = RangeMax::new(&allocated);

    let mut found: BTreeMap<String, (usize, Region)> = BTreeMap::new();
    for run in region_runs(history.trace, history.device) {
        // Moment n lies after event n - 1.
        let first = times.partition_point(|&t| t < run.start_us);
        let last = times.partition_point(|&t| t <= run.end_us).max(first);
        let peak = highest.of(first, last);
        let name = without_number(history.trace.strings.get(run.name));
        let order = found.len();
        let (_, region) = found.entry(name.to_owned()).or_insert_with(|| {
            let name = name.to_owned();
            let none =
                Region { name, count: 0, peak: 0, peak_run: 0, peak_above_start: 0, net: 0, total_us: 0 };
            (order, none)
        });
        if peak > region.peak {
            region.peak = peak;
            region.peak_run = region.count;
        }
        region.count += 1;
        region.peak_above_start = region.peak_above_start.max(peak - allocated[first]);
        region.net += allocated[last] as i64 - allocated[first] as i64;
        region.total_us = region.total_us.saturating_add(run.end_us.saturating_sub(run.start_us));
    }
    let mut out: Vec<(usize, Region)> = found.into_values().collect();
    out.sort_by_key(|(order, _)| *order);
    out.into_iter().map(|(_, region)| region).collect()
}

/// The time of each event in microseconds since the Unix epoch, never falling: the recorder's clock may step
/// back by a little. `None` where an event has none.
pub fn event_times(device: &DeviceTrace) -> Option<Vec<i64>> {
    let mut latest = i64::MIN;
    let rise = |t: i64| {
        latest = latest.max(t);
        latest
    };
    device
        .events
        .iter()
        .map(|e| e.time_us)
        .collect::<Option<Vec<_>>>()
        .map(|t| t.into_iter().map(rise).collect())
}

fn without_number(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((stem, n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    }
}

/// The highest value in any range, in time that does not depend on its length.
struct RangeMax<'v> {
    values: &'v [u64],
    /// `levels[k][i]` is the highest of `1 << k` chunks from chunk `i`.
    levels: Vec<Vec<u64>>,
}

const CHUNK: usize = 256;

impl<'v> RangeMax<'v> {
    fn new(values: &'v [u64]) -> Self {
        let chunks: Vec<u64> = values.chunks(CHUNK).map(|c| c.iter().copied().max().unwrap_or(0)).collect();
        let mut levels = vec![chunks];
        let mut step = 1;
        while let Some(below) = levels.last().filter(|l| l.len() > step) {
            let above: Vec<u64> = below.iter().zip(&below[step..]).map(|(&a, &b)| a.max(b)).collect();
            levels.push(above);
            step *= 2;
        }
        Self { values, levels }
    }

    /// The highest of `first..=last`.
    fn of(&self, first: usize, last: usize) -> u64 {
        let plain = |from: usize, to: usize| self.values[from..=to].iter().copied().max().unwrap_or(0);
        let (a, b) = (first / CHUNK + 1, last / CHUNK);
        if a >= b {
            return plain(first, last);
        }
        // Whole chunks a..b, covered by two that may overlap.
        let level = (b - a).ilog2() as usize;
        let whole = self.levels[level][a].max(self.levels[level][b - (1 << level)]);
        whole.max(plain(first, a * CHUNK - 1)).max(plain(b * CHUNK, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_of_a_range_is_what_a_scan_finds() {
        let values: Vec<u64> = (0..2000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
        let fast = RangeMax::new(&values);
        for first in (0..2000).step_by(97) {
            for last in (first..2000).step_by(61) {
                let scan = values[first..=last].iter().copied().max().unwrap();
                assert_eq!(fast.of(first, last), scan, "{first}..={last}");
            }
        }
    }
}
