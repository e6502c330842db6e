//! JSON of private pools and of the memory of serving programs.

use serde::Serialize;
use vramscope_analysis::{PrivatePool, ServingMemory};
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
}

/// The memory of a program with a KV cache. All parts but the activations are those at the end, and add up to the allocated bytes there.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ServingMemory"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ServingMemory"))]
pub(super) struct ServingJson {
    weights_bytes: u64,
    kv_cache_bytes: u64,
    /// Other blocks in private pools, such as those of CUDA graphs.
    graphs_bytes: u64,
    other_bytes: u64,
    /// The most bytes of other blocks that are freed before the end.
    activations_bytes: u64,
    /// The event of that peak; null before the first event.
    activations_event: Option<usize>,
}

impl PrivatePoolJson {
    pub(super) fn of(of: &PrivatePool) -> Self {
        let PoolId(x, y) = of.pool;
        Self {
            pool: [x, y],
            segments: of.segments,
            reserved_bytes: of.reserved,
            allocated_bytes: of.allocated,
            blocks: of.blocks,
            peak_allocated_bytes: of.peak_allocated,
        }
    }
}

impl ServingJson {
    pub(super) fn of(of: &ServingMemory) -> Self {
        let &ServingMemory { weights, kv_cache, graphs, other, activations, activations_event } = of;
        Self {
            weights_bytes: weights,
            kv_cache_bytes: kv_cache,
            graphs_bytes: graphs,
            other_bytes: other,
            activations_bytes: activations,
            activations_event,
        }
    }
}
