//! The sections about private pools and the memory of serving programs.

use serde::Serialize;
use vramscope_analysis::{GraphCapture, PrivatePoolUse, ServingMemory, Summary};
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::PoolId;

use crate::names::Names;
use crate::text::page::Page;

/// A private pool at the end of the recording.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PrivatePool"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "PrivatePool"))]
pub(crate) struct PrivatePoolJson {
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
pub(crate) struct GraphCaptureJson {
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
pub(crate) struct ServingJson {
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
    pub(crate) fn of(of: &PrivatePoolUse) -> Self {
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
    pub(crate) fn of(of: &ServingMemory) -> Self {
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

impl Page<'_> {
    pub(crate) fn private_pools(&mut self, s: &Summary) {
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

    pub(crate) fn serving(&mut self, s: &Summary) {
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
