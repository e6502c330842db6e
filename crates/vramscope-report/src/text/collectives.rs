//! The section about buffers of collectives.

use vramscope_analysis::{CollectiveUse, Summary};
use vramscope_basics::units::{bytes, count, counted};

use super::page::{DIM, Page};
use crate::names::stream;

impl Page<'_> {
    pub(super) fn collectives(&mut self, s: &Summary) {
        if s.collectives.is_empty() {
            return;
        }
        let all: u64 = s.collectives.iter().map(|of| of.bytes).sum();
        self.heading(&format!("Buffers of collectives at this moment: {}", bytes(all)));
        for of in s.collectives.iter().take(self.options.top) {
            self.line(self.collective(of));
            self.line(format!("               {DIM}{}{DIM:#}", self.names.frame(of.frame)));
        }
        let more = s.collectives.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
        if s.collectives.iter().any(|of| of.process_group_pool.is_none()) {
            self.words(
                2,
                "The process group is not recorded: PyTorch's history only shows it for tensors of \
                 `allocate_tensor`, with C++ stacks.",
            );
        }
    }

    /// The row of one group: bytes, operation, stream, process group if it is recorded, and counts.
    fn collective(&self, of: &CollectiveUse) -> String {
        let group =
            of.process_group_pool.map(|pool| format!(", process group of {}", self.names.pool(Some(pool))));
        format!(
            "  {:>11}  {}, {}{}  {DIM}{}, at most {} in {}{DIM:#}",
            bytes(of.bytes),
            of.operation.name(),
            stream(of.stream),
            group.unwrap_or_default(),
            counted(of.blocks as u64, "block"),
            bytes(of.peak),
            counted(of.allocations as u64, "allocation"),
        )
    }
}
