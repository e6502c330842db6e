//! The runs of annotated regions.

use std::collections::HashMap;

use serde::Serialize;
use vramscope_analysis::{event_times, region_runs};

use crate::questions::columns::{Columns, F64s, U8s, U32s};
use crate::questions::device::OpenDevice;
use crate::questions::rows::rows_of;

/// Annotated regions: one entry per run, outermost first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Regions<'r> {
    pub(crate) names: Vec<&'r str>,
    /// A position in `names`.
    pub(crate) name: U32s,
    /// The row in which it is drawn: below the regions that contain it, and separate from those that overlap it.
    pub(crate) row: U8s,
    /// The last moment before the run's first event, and the last moment of the run.
    pub(crate) from: U32s,
    pub(crate) to: U32s,
    pub(crate) from_us: F64s,
    pub(crate) to_us: F64s,
}

impl OpenDevice {
    pub(crate) fn regions(&self, columns: &mut Columns) -> Regions<'_> {
        let history = self.history();
        let mut runs = region_runs(history.trace(), history.device());
        runs.sort_by_key(|r| (r.start_us, std::cmp::Reverse(r.end_us), r.depth));
        let times = event_times(history.device()).unwrap_or_default();
        let mut names: Vec<&str> = Vec::new();
        let mut index = HashMap::new();
        let name: Vec<u32> = runs
            .iter()
            .map(|s| {
                *index.entry(s.name).or_insert_with(|| {
                    names.push(history.trace().strings.get(s.name));
                    (names.len() - 1) as u32
                })
            })
            .collect();
        let origin = history.device().events.iter().next().and_then(|e| e.time_us).unwrap_or(0);
        let since = |t: i64| t.saturating_sub(origin) as f64;
        Regions {
            names,
            name: columns.u32(name),
            row: columns.u8(rows_of(runs.iter().map(|r| (r.start_us, r.end_us)))),
            from: columns.u32(runs.iter().map(|r| r.moments(&times).0 as u32)),
            to: columns.u32(runs.iter().map(|r| r.moments(&times).1 as u32)),
            from_us: columns.f64(runs.iter().map(|r| since(r.start_us))),
            to_us: columns.f64(runs.iter().map(|r| since(r.end_us))),
        }
    }
}
