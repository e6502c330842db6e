//! The memory of a program that serves a model, in parts that do not overlap.

use vramscope_trace::{Category, PoolId};

use super::private_pools::peak;
use crate::categories::AllocationCategories;
use crate::history::{History, RecordedAllocation};

/// The allocated bytes of a program with a KV cache: four parts at the end, which add up to all allocated bytes there, and the activations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServingMemory {
    /// Parameters and buffers.
    pub weights: u64,
    /// Blocks of the KV cache.
    pub kv_cache: u64,
    /// Other blocks in private pools, such as those of CUDA graphs.
    pub graphs: u64,
    /// All other blocks, such as workspaces of libraries and inputs.
    pub other: u64,
    /// The most bytes of blocks outside of all these parts: those that are freed before the end.
    pub activations: u64,
    /// The event of that peak; `None` if it is before the first event.
    pub activations_event: Option<usize>,
}

/// Returns the parts of a program that has a KV cache at the end; `None` for any other program. `pool_of` returns the pool of an
/// allocation, by its index.
pub(crate) fn serving_memory(
    history: &History,
    categories: &AllocationCategories,
    pool_of: impl Fn(usize) -> Option<PoolId>,
) -> Option<ServingMemory> {
    let end = history.end();
    let kept = || history.allocations.iter().filter(|a| a.is_allocated_at(end));
    if !kept().any(|a| categories.category(a) == Category::KvCache) {
        return None;
    }
    let mut parts = ServingMemory::default();
    let mut freed: Vec<&RecordedAllocation> = Vec::new();
    for (id, a) in history.allocations.iter().enumerate() {
        let is_kept = a.is_allocated_at(end);
        let part = match categories.category(a) {
            Category::KvCache => &mut parts.kv_cache,
            Category::Parameter | Category::Buffer => &mut parts.weights,
            _ if pool_of(id).is_some_and(|pool| pool != PoolId::default()) => &mut parts.graphs,
            _ if is_kept => &mut parts.other,
            _ => {
                freed.push(a);
                continue;
            }
        };
        *part += if is_kept { a.size } else { 0 };
    }
    (parts.activations, parts.activations_event) = peak(&freed);
    Some(parts)
}
