//! The recorded runs of annotated regions, with start and end times.

use std::collections::BTreeMap;

use vramscope_trace::{DeviceTrace, Stage, StringId, Trace};

use crate::history::{History, Moment, rising_times};

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

/// Returns the runs of the regions of a device, in order of their ends; none if an event has no time.
pub fn runs_between(history: &History) -> Vec<RunBetween> {
    let runs = region_runs(history.trace(), history.device());
    let moments = moments_of(&runs, history.device()).unwrap_or_default();
    let between = runs.iter().zip(moments).map(|(run, (from, to))| RunBetween {
        name: run.name,
        from: Moment::from_index(from as usize),
        to: Moment::from_index(to as usize),
    });
    between.collect()
}

/// Returns [`RegionRun::moments`] of each run, without a column of times; `None` if an event has no time.
pub(crate) fn moments_of(runs: &[RegionRun], device: &DeviceTrace) -> Option<Vec<(u32, u32)>> {
    if runs.is_empty() {
        return Some(Vec::new());
    }
    // A border is where the time first reaches or passes it.
    let mut borders: Vec<(i64, bool, u32)> = Vec::with_capacity(runs.len() * 2);
    for (number, run) in (0..).zip(runs) {
        borders.push((run.start_us, false, number));
        borders.push((run.end_us, true, number));
    }
    borders.sort_unstable();
    let mut moments = vec![(0, 0); runs.len()];
    let mut borders = borders.into_iter().peekable();
    let mut put = |moment: u32, is_last: bool, number: u32| {
        let moments: &mut (u32, u32) = &mut moments[number as usize];
        *(if is_last { &mut moments.1 } else { &mut moments.0 }) = moment;
    };
    for (event, time) in (0..).zip(rising_times(device)) {
        let time = time?;
        let is_passed = |&(at, is_last, _): &(i64, bool, u32)| at < time || (at == time && !is_last);
        while let Some((_, is_last, number)) = borders.next_if(is_passed) {
            put(event, is_last, number);
        }
    }
    for (_, is_last, number) in borders {
        put(device.events.len() as u32, is_last, number);
    }
    for (first, last) in &mut moments {
        *last = (*last).max(*first);
    }
    Some(moments)
}
