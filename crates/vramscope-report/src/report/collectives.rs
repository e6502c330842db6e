//! The section about buffers of collectives.

use serde::Serialize;
use vramscope_analysis::{CollectiveUse, Summary};
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::PoolId;

use crate::json::stacks::{Builder, FrameJson};
use crate::names::stream;
use crate::text::lines::DIM;
use crate::text::page::Page;

/// Buffers of one collective operation on one stream, of one process group where it is known.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Collective"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportCollective"))]
pub(crate) struct CollectiveJson {
    /// `all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all`, `broadcast`, `gather`, `scatter`, `reduce`, `point_to_point`, `barrier` or
    /// `unknown`.
    operation: &'static str,
    /// The private pool that the process group created for its tensors; null if the process group is not recorded.
    process_group_pool: Option<[u64; 2]>,
    /// The stream on which the buffers were allocated, as its address.
    stream: u64,
    /// Bytes at the event of the holders.
    bytes: u64,
    blocks: usize,
    /// The most bytes of these buffers at one event.
    peak_bytes: u64,
    /// Number of allocations in the whole recording.
    allocations: usize,
    /// The frame of PyTorch that shows the operation, in the stack of the largest buffer.
    frame: FrameJson,
    /// The line of the user's code in that stack; null without one.
    line: Option<FrameJson>,
}

impl Builder<'_> {
    /// The buffers of collectives; `None` if there are none.
    pub(crate) fn collectives(&self, uses: &[CollectiveUse]) -> Option<Vec<CollectiveJson>> {
        let of = |of: &CollectiveUse| CollectiveJson {
            operation: of.operation.name(),
            process_group_pool: of.process_group_pool.map(|PoolId(a, b)| [a, b]),
            stream: of.stream,
            bytes: of.bytes,
            blocks: of.blocks,
            peak_bytes: of.peak,
            allocations: of.allocations,
            frame: self.frame(of.frame),
            line: self.names.frames.own_frame(self.names.trace, of.stack).map(|id| self.frame(id)),
        };
        (!uses.is_empty()).then(|| uses.iter().map(of).collect())
    }
}

impl Page<'_> {
    pub(crate) fn collectives(&mut self, s: &Summary) {
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
