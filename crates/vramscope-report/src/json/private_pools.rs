//! JSON of private pools and of the memory of serving programs.

use serde::Serialize;
use vramscope_analysis::{GraphCapture, PrivatePoolUse, ServingMemory};
use vramscope_trace::PoolId;

/// A private pool at the end of the recording.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PrivatePool"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "PrivatePool"))]
pub(super) struct PrivatePoolJson {
    pool: [u64; 2],
    segments: usize,
    reserved_bytes: u64,
    allocated_bytes: u64,
    blocks: usize,
    /// The most bytes that were allocated in it.
    peak_allocated_bytes: u64,
    /// Whether it belongs to CUDA graphs, by its id or by the function that begins a capture.
    of_graphs: bool,
    /// What each capture of a CUDA graph added to the pool, in order. Captures are inferred: no allocation outside of the pool comes within
    /// one.
    captures: Vec<GraphCaptureJson>,
}

/// A capture of a CUDA graph, or several with no allocation outside of their pool in between.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "GraphCapture"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "GraphCapture"))]
pub(super) struct GraphCaptureJson {
    /// The event of its first allocation.
    event: usize,
    allocations: usize,
    largest_request_bytes: u64,
    /// Bytes of segments that the pool reserved in it.
    reserved_bytes: u64,
    /// Bytes of the pool's blocks that are allocated after it, minus those before it.
    allocated_bytes: i64,
}

impl GraphCaptureJson {
    fn of(of: &GraphCapture) -> Self {
        let &GraphCapture { event, allocations, largest_request, reserved, allocated } = of;
        Self {
            event,
            allocations,
            largest_request_bytes: largest_request,
            reserved_bytes: reserved,
            allocated_bytes: allocated,
        }
    }
}

/// The memory of a program with a KV cache. All parts but the activations are those at the end, and add up to the allocated bytes there.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ServingMemory"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ServingMemory"))]
pub(super) struct ServingJson {
    /// The event after which the parts are counted: the last one, or, if the program frees its KV cache, the last one of the cache's peak;
    /// null before the first event.
    event: Option<usize>,
    weights_bytes: u64,
    kv_cache_bytes: u64,
    /// Other blocks in private pools, such as those of CUDA graphs.
    graphs_bytes: u64,
    other_bytes: u64,
    /// The most bytes of other blocks that are freed by then.
    activations_bytes: u64,
    /// The event of that peak; null before the first event.
    activations_event: Option<usize>,
}

impl PrivatePoolJson {
    pub(super) fn of(of: &PrivatePoolUse) -> Self {
        let PoolId(x, y) = of.pool;
        Self {
            pool: [x, y],
            segments: of.segments,
            reserved_bytes: of.reserved,
            allocated_bytes: of.allocated,
            blocks: of.blocks,
            peak_allocated_bytes: of.peak_allocated,
            of_graphs: of.is_of_graphs,
            captures: of.captures.iter().map(GraphCaptureJson::of).collect(),
        }
    }
}

impl ServingJson {
    pub(super) fn of(of: &ServingMemory) -> Self {
        let &ServingMemory { moment, weights, kv_cache, graphs, other, activations, activations_event } = of;
        Self {
            event: moment.event(),
            weights_bytes: weights,
            kv_cache_bytes: kv_cache,
            graphs_bytes: graphs,
            other_bytes: other,
            activations_bytes: activations,
            activations_event,
        }
    }
}
