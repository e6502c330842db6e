//! The runs of annotated regions, as they were recorded: starts and ends on the clock.

use std::collections::BTreeMap;

use vramscope_trace::{DeviceTrace, Stage, StringId, Trace};

/// One run of an annotated region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionRun {
    /// The name of the region as it was recorded, with its number.
    pub name: StringId,
    /// How many regions were open around it.
    pub depth: usize,
    /// When it began, in microseconds since the Unix epoch.
    pub start_us: i64,
    /// When it ended, in microseconds since the Unix epoch.
    pub end_us: i64,
}

impl RegionRun {
    /// The last moments before anything happened inside, and inside, by the [times](crate::event_times) of the events.
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
