//! The memory of a program that serves a model, in parts that do not overlap.

use vramscope_trace::{Category, PoolId};

use super::private_pools::peak;
use crate::categories::AllocationCategories;
use crate::history::{History, Moment, RecordedAllocation};

/// The allocated bytes of a program with a KV cache: four parts at one moment, which add up to all allocated bytes there, and the activations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServingMemory {
    /// The moment of the parts: the end, or, if the program frees its KV cache before, the last moment of the cache's peak.
    pub moment: Moment,
    /// Parameters and buffers.
    pub weights: u64,
    /// Blocks of the KV cache.
    pub kv_cache: u64,
    /// Other blocks in private pools, such as those of CUDA graphs.
    pub graphs: u64,
    /// All other blocks, such as workspaces of libraries and inputs.
    pub other: u64,
    /// The most bytes of blocks outside of all these parts: those that are freed by that moment.
    pub activations: u64,
    /// The event of that peak; `None` if it is before the first event.
    pub activations_event: Option<usize>,
}

/// Returns the parts of a program that has a KV cache; `None` for any other program. `pool_of` returns the pool of an allocation, by its
/// index.
pub(crate) fn serving_memory(
    history: &History,
    categories: &AllocationCategories,
    pool_of: impl Fn(usize) -> Option<PoolId>,
) -> Option<ServingMemory> {
    let mut parts = ServingMemory { moment: moment(history, categories)?, ..ServingMemory::default() };
    let mut freed: Vec<&RecordedAllocation> = Vec::new();
    for (id, a) in history.allocations.iter().enumerate() {
        if a.from > parts.moment {
            continue;
        }
        let is_kept = a.is_allocated_at(parts.moment);
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

/// Fewer bytes than one of this many parts of the peak are no cache of a server: a forward pass of a model that could generate returns keys
/// and values too.
const LEAST_PART: u64 = 50;

/// Returns the moment of the parts; `None` if the program has no KV cache.
fn moment(history: &History, categories: &AllocationCategories) -> Option<Moment> {
    let is_cache = |a: &&RecordedAllocation| categories.category(a) == Category::KvCache;
    let cache: Vec<&RecordedAllocation> = history.allocations.iter().filter(is_cache).collect();
    let highest = history.peaks().allocated.bytes;
    if peak(&cache).0 < highest / LEAST_PART {
        return None;
    }
    let end = history.end();
    if cache.iter().any(|a| a.is_allocated_at(end)) {
        return Some(end);
    }
    let first = peak(&cache).1.map_or(Moment::START, Moment::after);
    let freed = cache.iter().filter(|a| a.is_allocated_at(first)).map(|a| a.freed).min()?;
    Some(Moment::from_index(freed.index() - 1))
}
