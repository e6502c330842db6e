//! The section about estimates: the peak that a recorded program would have with a change.

use vramscope_analysis::Summary;

use super::page::{BOLD, Page};
use crate::estimates::{basis, left_out, lines, name, told, verify};
use crate::fit::fit;
use vramscope_basics::units::{bytes, count, counted};

impl Page<'_> {
    pub(super) fn estimates(&mut self, s: &Summary) {
        let Some(estimates) = &s.estimates else { return };
        match estimates.estimates.len() {
            0 => self.heading("No estimated change lowers the peak"),
            several => {
                self.heading(&format!("Estimates: {} lower the peak", counted(several as u64, "change")));
            }
        }
        for text in basis(estimates) {
            self.words(2, &text);
        }
        for estimate in estimates.estimates.iter().take(self.options.top) {
            let name = fit(&name(&self.names, estimate), self.options.width.saturating_sub(16));
            self.line(format!("  {:>11}  {BOLD}{name}{BOLD:#}", bytes(estimate.peak)));
            self.words(15, &told(estimates, estimate));
            // Lines to paste are not cut.
            let lines = if estimates.budget.is_some() { lines(&self.names, estimate) } else { Vec::new() };
            for line in lines {
                self.line(format!("                 {line}"));
            }
        }
        let more = estimates.estimates.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
        for text in left_out(estimates) {
            self.words(2, &format!("No estimate for {text}"));
        }
        if let Some(first) = estimates.estimates.first() {
            self.words(2, "A run of the changed program on a phantom GPU verifies an estimate:");
            self.line(format!("    {}", verify(first.change, estimates.budget)));
        }
    }
}
