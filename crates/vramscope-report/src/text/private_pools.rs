//! The sections about private pools and the memory of serving programs.

use vramscope_analysis::Summary;
use vramscope_basics::units::{bytes, count};

use super::page::Page;
use crate::private_pools::{graph_captures, private_pool, serving_parts};

impl Page<'_> {
    pub(super) fn private_pools(&mut self, s: &Summary) {
        if s.private_pools.is_empty() {
            return;
        }
        self.heading("Private pools at the end");
        for pool in s.private_pools.iter().take(self.options.top) {
            self.words(2, &private_pool(&self.names, pool));
            if let Some((title, rows)) = graph_captures(pool, self.options.top) {
                self.words(2, &title);
                rows.iter().for_each(|row| self.words(4, row));
            }
        }
        let more = s.private_pools.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {more} more"));
        }
    }

    pub(super) fn serving(&mut self, s: &Summary) {
        let Some(serving) = &s.serving else { return };
        let event = serving.moment.event().filter(|&event| event + 1 < s.events);
        let when = event.map_or_else(String::new, |event| {
            format!(", after event {}, before its KV cache is freed", count(event as u64))
        });
        self.heading(&format!("Memory of the served model{when}"));
        for (name, part) in serving_parts(serving) {
            self.line(format!("  {:>11}  {name}", bytes(part)));
        }
    }
}
