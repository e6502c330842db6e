//! What the annotated regions of a program needed.

use std::collections::BTreeMap;

use vramscope_trace::{DeviceTrace, Stage, StringId, Trace};

use crate::history::History;
use crate::spans::{Seen, Spans};

/// One run of an annotated region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionRun {
    /// The name, with its number.
    pub name: StringId,
    /// How many regions were open around it.
    pub depth: usize,
    /// When it began, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// When it ended.
    pub end_us: i64,
}

impl RegionRun {
    /// The last moments before anything happened inside, and inside, by the [times](event_times) of the events.
    ///
    /// Regions and events share no number, only the clock: an event counts to a region that was open when it
    /// happened, to the microsecond.
    pub fn moments(&self, times: &[i64]) -> (usize, usize) {
        // Moment n lies after event n - 1.
        let first = times.partition_point(|&t| t < self.start_us);
        (first, times.partition_point(|&t| t <= self.end_us).max(first))
    }
}

/// The runs of regions on `device`, in order of their ends. An end without a start, or the other way round, is
/// left out; so are regions of other devices and those without a time.
pub fn region_runs(trace: &Trace, device: &DeviceTrace) -> Vec<RegionRun> {
    let mut open: BTreeMap<StringId, Vec<(usize, i64)>> = BTreeMap::new();
    let mut depth = 0;
    let mut runs = Vec::new();
    for a in trace.annotations.iter().flatten().filter(|a| a.device == device.device || a.device < 0) {
        let Some(time) = a.time_us else { continue };
        match a.stage {
            Stage::Start => {
                open.entry(a.name).or_default().push((depth, time));
                depth += 1;
            }
            Stage::End => {
                if let Some((outside, start)) = open.get_mut(&a.name).and_then(Vec::pop) {
                    depth = depth.saturating_sub(1);
                    runs.push(RegionRun { name: a.name, depth: outside, start_us: start, end_us: time });
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
    /// Highest allocated bytes in any run.
    pub peak: u64,
    /// The run it was in, from 0.
    pub peak_run: u64,
    /// Most that allocated bytes rose above where they stood when a run began.
    pub peak_above_start: u64,
    /// Allocated bytes after minus before, summed over all runs.
    pub net: i64,
    /// Time inside, summed over all runs, in microseconds.
    pub total_us: i64,
}

/// The regions of a device in order of their first end. What [`region_runs`] leaves out is left out here.
pub fn regions(history: &History<'_>) -> Vec<Region> {
    let runs = region_runs(history.trace, history.device);
    let Some(mut spans) = Spans::of(&runs, history.device).filter(|_| !runs.is_empty()) else {
        return Vec::new();
    };
    history.walk().for_each(|(moment, c)| spans.see(moment, c.allocated));
    regions_of(history, &runs, spans)
}

/// The regions behind `runs`, whose spans saw the allocated bytes at every moment.
pub(crate) fn regions_of(history: &History<'_>, runs: &[RegionRun], spans: Spans) -> Vec<Region> {
    let mut found: BTreeMap<String, (usize, Region)> = BTreeMap::new();
    for (run, Seen { before, highest: peak, after }) in runs.iter().zip(spans.seen()) {
        let name = without_number(history.trace.strings.get(run.name));
        let order = found.len();
        let (_, region) = found.entry(name.to_owned()).or_insert_with(|| (order, Region::named(name)));
        if peak > region.peak {
            region.peak = peak;
            region.peak_run = region.count;
        }
        region.count += 1;
        region.peak_above_start = region.peak_above_start.max(peak - before);
        region.net = region.net.saturating_add(after as i64 - before as i64);
        region.total_us = region.total_us.saturating_add(run.end_us.saturating_sub(run.start_us));
    }
    let mut out: Vec<(usize, Region)> = found.into_values().collect();
    out.sort_by_key(|(order, _)| *order);
    out.into_iter().map(|(_, region)| region).collect()
}

impl Region {
    fn named(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, count: 0, peak: 0, peak_run: 0, peak_above_start: 0, net: 0, total_us: 0 }
    }
}

/// The time of each event in microseconds since the Unix epoch, never falling: the recorder's clock may step
/// back by a little. `None` where an event has none.
pub fn event_times(device: &DeviceTrace) -> Option<Vec<i64>> {
    let mut latest = i64::MIN;
    let times = device.events.times().map(|time| {
        latest = latest.max(time?);
        Some(latest)
    });
    times.collect()
}

fn without_number(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((stem, n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    }
}
