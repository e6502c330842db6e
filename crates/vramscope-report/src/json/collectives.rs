//! JSON of buffers of collectives.

use serde::Serialize;
use vramscope_analysis::CollectiveUse;
use vramscope_trace::PoolId;

use super::stacks::{Builder, FrameJson};

/// Buffers of one collective operation on one stream, of one process group where it is known.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Collective"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportCollective"))]
pub(super) struct CollectiveJson {
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
    pub(super) fn collectives(&self, uses: &[CollectiveUse]) -> Option<Vec<CollectiveJson>> {
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
