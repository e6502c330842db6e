//! The section about annotated regions of the program.

use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::{Region, RunFigures, Summary};
use vramscope_basics::units::{bytes, count, duration, signed_bytes};

use crate::fit::fit;
use crate::shown::Shown;
use crate::text::lines::DIM;
use crate::text::page::Page;

/// An annotated region of the program, over all its runs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Region"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Region"))]
pub(crate) struct RegionJson {
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
pub(crate) struct RunJson {
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

pub(crate) fn region(r: &Region) -> RegionJson {
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

impl Page<'_> {
    pub(crate) fn regions(&mut self, s: &Summary) {
        if s.regions.is_empty() {
            return;
        }
        let room = self.options.width.saturating_sub(2 + 7 + 13 + 13 + 13 + 12).clamp(12, 60);
        self.heading(&format!(
            "{:<width$}{:>7}{:>13}{:>13}{:>13}{:>12}",
            "Regions",
            "runs",
            "peak",
            "above start",
            "net",
            "time",
            width = room + 2
        ));
        for r in s.regions.iter().take(self.options.top) {
            let name = fit(&Shown::of(&r.name), room);
            let pad = " ".repeat(room.saturating_sub(name.width()));
            self.line(format!("  {name}{pad}{:>7}{}", count(r.count), figures(&r.typical)));
            let others = [("first run", r.first), ("highest peak", r.largest)];
            for (which, run) in others.into_iter().filter(|(_, run)| differs(run, &r.typical)) {
                self.line(format!("  {DIM}{:<room$}{:>7}{}{DIM:#}", format!("  {which}"), "", figures(&run)));
            }
        }
        let more = s.regions.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
        if s.regions.iter().any(|r| r.count > 1) {
            let text = "Each figure is for one run: the median of all runs after the first (of two runs, the second). The first run and the run with the highest peak are listed if they differ.";
            self.words(2, text);
        }
    }
}

/// The columns of one run of a region.
fn figures(run: &RunFigures) -> String {
    let [peak, above] = [run.peak, run.above_start].map(bytes);
    format!("{peak:>13}{above:>13}{:>13}{:>12}", signed_bytes(run.net), duration(run.us))
}

/// Whether two runs differ in memory. Times always differ.
fn differs(a: &RunFigures, b: &RunFigures) -> bool {
    (a.peak, a.above_start, a.net) != (b.peak, b.above_start, b.net)
}
