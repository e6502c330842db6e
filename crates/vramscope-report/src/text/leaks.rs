//! The section about leak suspects, with evidence.

use vramscope_analysis::{LeakSuspect, Summary, WINDOWS};

use super::holders::has_stacks;
use super::page::{BOLD, Page};
use crate::fit::fit;
use vramscope_basics::units::{bytes, count, counted};

impl Page<'_> {
    pub(super) fn leaks(&mut self, s: &Summary) {
        if s.events == 0 || !has_stacks(s) {
            return;
        }
        if s.leaks.is_empty() {
            self.heading("No leak suspects");
            return;
        }
        self.heading(&format!("Leak suspects: {}", counted(s.leaks.len() as u64, "line")));
        for leak in s.leaks.iter().take(self.options.top) {
            self.leak(leak);
        }
        let more = s.leaks.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }

    pub(super) fn leak(&mut self, leak: &LeakSuspect) {
        let line = fit(&self.names.frame(leak.line), self.options.width.saturating_sub(16));
        self.line(format!("  {:>11}  {BOLD}{line}{BOLD:#}", bytes(leak.kept_bytes)));
        let floor: Vec<String> = leak.floor.iter().map(|n| n.to_string()).collect();
        let stacks =
            if leak.stacks.len() > 1 { format!(" from {} stacks", leak.stacks.len()) } else { String::new() };
        let text = format!(
            "retained {} of {} blocks{stacks}; fewest live from each tenth of the run to its end: {}",
            count(leak.kept),
            count(leak.allocations),
            floor.join(" ")
        );
        self.words(15, &text);
        let half = leak.kept_by_then[WINDOWS / 2 - 1];
        let text =
            format!("{} in the middle of the run and {} at its end", bytes(half), bytes(leak.kept_bytes));
        self.words(15, &text);
        self.full_stack(Some(leak.stack));
    }
}
