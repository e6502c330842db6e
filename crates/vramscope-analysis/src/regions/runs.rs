//! The recorded runs of annotated regions, with start and end times.

use std::collections::BTreeMap;

use vramscope_trace::{DeviceTrace, Stage, StringId, Trace};

use crate::history::{History, Moment, event_times};

/// One run of an annotated region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionRun {
    /// The recorded name of the region, including its number.
    pub name: StringId,
    /// Number of regions that were open around it.
    pub depth: usize,
    /// Start time, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// End time, in microseconds since the Unix epoch.
    pub end_us: i64,
}

impl RegionRun {
    /// Returns the last moment before the run's first event and the last moment inside the run, based on the
    /// [times](crate::event_times) of the events.
    ///
    /// Regions and events are related only by the clock: an event belongs to a region that was open when it happened, to the
    /// microsecond.
    pub fn moments(&self, times: &[i64]) -> (usize, usize) {
        // Moment n is after event n - 1.
        let first = times.partition_point(|&t| t < self.start_us);
        (first, times.partition_point(|&t| t <= self.end_us).max(first))
    }
}

/// Returns the runs of regions on `device`, in order of their ends. Ends without a start, starts without an end, regions of other
/// devices and regions without a time are left out.
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

/// One run of an annotated region, as an interval of moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBetween {
    /// The recorded name of the region, including its number.
    pub name: StringId,
    /// The last moment before the run's first event.
    pub from: Moment,
    /// The last moment inside the run.
    pub to: Moment,
}

/// Returns the runs of the regions of a device, in order of their ends.
pub fn runs_between(history: &History) -> Vec<RunBetween> {
    let runs = region_runs(history.trace(), history.device());
    if runs.is_empty() {
        return Vec::new();
    }
    let times = event_times(history.device()).unwrap_or_default();
    let between = runs.iter().map(|run| {
        let (from, to) = run.moments(&times);
        RunBetween { name: run.name, from: Moment::from_index(from), to: Moment::from_index(to) }
    });
    between.collect()
}
