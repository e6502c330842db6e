//! The section about annotated regions of the program.

use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::{RunFigures, Summary};

use super::page::{DIM, Page};
use crate::fit::fit;
use crate::shown::Shown;
use vramscope_basics::units::{bytes, count, duration, signed_bytes};

impl Page<'_> {
    pub(super) fn regions(&mut self, s: &Summary) {
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
