//! Sentences about private pools and the memory of serving programs.

use vramscope_analysis::{GraphCapture, PrivatePoolUse, ServingMemory};
use vramscope_basics::units::{bytes, count, counted};

use crate::names::Names;

/// A pool in a sentence: its reserved and allocated bytes, and its kind.
pub fn private_pool(names: &Names<'_>, of: &PrivatePoolUse) -> String {
    let kind = names.pool_kind(Some(of.pool)).unwrap_or("the default pool");
    let kind = if of.is_of_graphs { "of CUDA graphs" } else { kind };
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

/// The captures of a pool, as the title of a table and its rows; `None` if there are fewer than two. PyTorch's history does not mark
/// captures, so the title has the rule.
pub fn graph_captures(of: &PrivatePoolUse, most: usize) -> Option<(String, Vec<String>)> {
    let all = of.captures.len();
    if all < 2 {
        return None;
    }
    let title = format!(
        "Captures in {}, inferred: no allocation outside of the pool comes within one",
        counted(all as u64, "part")
    );
    let mut rows: Vec<String> = of.captures.iter().take(most).map(graph_capture).collect();
    if all > most {
        rows.push(format!("... {} more", count((all - most) as u64)));
    }
    Some((title, rows))
}

/// What a capture added to its pool.
fn graph_capture(of: &GraphCapture) -> String {
    let (sign, left) = if of.allocated < 0 { ("-", "freed") } else { ("+", "left allocated") };
    format!(
        "+{} reserved, {sign}{} {left}, largest request {}: {}, from event {}",
        bytes(of.reserved),
        bytes(of.allocated.unsigned_abs()),
        bytes(of.largest_request),
        counted(of.allocations as u64, "allocation"),
        count(of.event as u64)
    )
}

/// The parts of a serving program, each with its name.
pub fn serving_parts(of: &ServingMemory) -> [(&'static str, u64); 5] {
    [
        ("weights", of.weights),
        ("KV cache", of.kv_cache),
        ("CUDA graphs and other private pools", of.graphs),
        ("other blocks", of.other),
        ("activations, at their peak", of.activations),
    ]
}
