//! Sentences about private pools and the memory of serving programs.

use vramscope_analysis::{PrivatePool, ServingMemory};
use vramscope_basics::units::{bytes, counted};

use crate::names::Names;

/// A pool in a sentence: its reserved and allocated bytes, and its kind.
pub fn private_pool(names: &Names<'_>, of: &PrivatePool) -> String {
    let kind = names.pool_kind(Some(of.pool)).unwrap_or("the default pool");
    format!(
        "{}: {} reserved in {}, {} of it allocated in {}, and {} at its peak. The pool is {kind}.",
        names.pool(Some(of.pool)),
        bytes(of.reserved),
        counted(of.segments as u64, "segment"),
        bytes(of.allocated),
        counted(of.blocks as u64, "block"),
        bytes(of.peak_allocated)
    )
}

/// The parts of a serving program, each with its name.
pub fn serving_parts(of: &ServingMemory) -> [(&'static str, u64); 5] {
    [
        ("weights", of.weights),
        ("KV cache", of.kv_cache),
        ("CUDA graphs and other private pools", of.graphs),
        ("other blocks at the end", of.other),
        ("activations, at their peak", of.activations),
    ]
}
