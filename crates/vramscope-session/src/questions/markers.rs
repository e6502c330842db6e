//! The markers along a recording, as a list.

use serde::Serialize;
use vramscope_analysis::{Moment, event_times, region_runs};
use vramscope_trace::Action;

use crate::questions::columns::{Columns, F64s, Reply, U8s, U32s, moment};
use crate::questions::device::OpenDevice;

/// The kinds of [`Markers`], by position.
#[cfg(test)]
pub(crate) const MARKERS: [&str; 4] = ["oom", "snapshot", "step", "region"];

/// The markers along the recording: failed requests and snapshots, then steps, then region runs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Markers {
    /// A position in `MARKERS`.
    pub(crate) kind: U8s,
    /// The index of the step, or of the run among the regions.
    pub(crate) number: U32s,
    /// The moment after its event; for steps and regions, after the first event.
    pub(crate) moment: U32s,
    /// Microseconds after the first event; NaN if the recording has no times.
    pub(crate) time_us: F64s,
    /// Allocated bytes at that moment.
    pub(crate) allocated: F64s,
    /// Bytes of a failed request.
    pub(crate) requested: F64s,
}

/// A marker: a position in `MARKERS`, its index within its kind, its moment, and the bytes of a request.
type Marker = (u8, u32, Moment, u64);

impl OpenDevice {
    pub(crate) fn markers(&self) -> Reply<Markers> {
        let history = self.history();
        let events = &history.device().events;
        let mut markers: Vec<Marker> = Vec::new();
        for (event, action) in events.actions().iter().enumerate() {
            let at = Moment::after(event);
            match action {
                Action::Oom => markers.push((0, 0, at, events.get(event).size)),
                Action::Snapshot => markers.push((1, 0, at, 0)),
                _ => {}
            }
        }
        for (number, step) in (0..).zip(&self.purposes().steps.steps) {
            markers.push((2, number, Moment::after(step.from.index()), 0));
        }
        if let Some(times) = event_times(history.device()) {
            let mut runs = region_runs(history.trace(), history.device());
            // The same order as in the answer about regions.
            runs.sort_by_key(|r| (r.start_us, std::cmp::Reverse(r.end_us), r.depth));
            for (number, run) in (0..).zip(&runs) {
                let (before, last) = run.moments(&times);
                markers.push((3, number, Moment::from_index((before + 1).min(last)), 0));
            }
        }
        let time = |at: Moment| self.timeline.time_of(at).map_or(f64::NAN, |us| us as f64);
        Columns::answer(|columns| Markers {
            kind: columns.u8(markers.iter().map(|m| m.0)),
            number: columns.u32(markers.iter().map(|m| m.1)),
            moment: columns.u32(markers.iter().map(|m| moment(m.2))),
            time_us: columns.f64(markers.iter().map(|m| time(m.2))),
            allocated: columns.sizes(markers.iter().map(|m| self.timeline.counters_at(m.2).allocated)),
            requested: columns.sizes(markers.iter().map(|m| m.3)),
        })
    }
}
