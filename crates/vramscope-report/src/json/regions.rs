//! JSON of the annotated regions of a program.

use serde::Serialize;
use vramscope_analysis::{Region, RunFigures};

/// An annotated region of the program, over all its runs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Region"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Region"))]
pub(super) struct RegionJson {
    name: String,
    count: u64,
    peak_allocated_bytes: u64,
    peak_above_start_bytes: u64,
    net_bytes: i64,
    total_us: i64,
    first: RunJson,
    typical: RunJson,
    largest: RunJson,
}

/// One run of a region.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RegionRun"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "RegionRun"))]
pub(super) struct RunJson {
    peak_allocated_bytes: u64,
    peak_above_start_bytes: u64,
    net_bytes: i64,
    us: i64,
    /// Half-open range `first_event..end_event` of event indices; absent for figures of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    first_event: Option<usize>,
    /// One past the last event index. Both indices are present only for single runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    end_event: Option<usize>,
}

pub(super) fn region(r: &Region) -> RegionJson {
    RegionJson {
        name: r.name.clone(),
        count: r.count,
        peak_allocated_bytes: r.peak,
        peak_above_start_bytes: r.peak_above_start,
        net_bytes: r.net,
        total_us: r.total_us,
        first: run(&r.first),
        typical: run(&r.typical),
        largest: run(&r.largest),
    }
}

fn run(r: &RunFigures) -> RunJson {
    RunJson {
        peak_allocated_bytes: r.peak,
        peak_above_start_bytes: r.above_start,
        net_bytes: r.net,
        us: r.us,
        first_event: r.events.map(|(first, _)| first),
        end_event: r.events.map(|(_, end)| end),
    }
}
