//! The section about all allocations of the run, freed or not.

use vramscope_analysis::{Holder, Summary};
use vramscope_basics::units::{bytes, counted};

use crate::text::lines::DIM;
use crate::text::page::Page;

impl Page<'_> {
    pub(crate) fn churn(&mut self, s: &Summary) {
        if s.churn.is_empty() {
            return;
        }
        let top = self.options.top.min(5);
        let total: u64 = s.churn.iter().map(|h| h.bytes).sum();
        let blocks: u64 = s.churn.iter().map(|h| h.count).sum();
        self.heading(&format!(
            "Allocated over the whole run: {} in {}",
            bytes(total),
            counted(blocks, "block")
        ));
        self.holder_rows(&s.churn, total, top);
        let mut by_count: Vec<&Holder> = s.churn.iter().collect();
        by_count.sort_by_key(|h| std::cmp::Reverse(h.count));
        let already = by_count.iter().take(top).all(|h| s.churn.iter().take(top).any(|c| c.key == h.key));
        if !already {
            self.line(format!("{DIM}  by number of blocks{DIM:#}"));
            for h in by_count.into_iter().take(top) {
                let label = self.names.key(&h.key);
                self.row(h.bytes, total, 0, &label, h.count);
            }
        }
    }
}
