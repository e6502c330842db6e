//! Known problems of the allocator, in recordings of PyTorch on phantom GPUs: of two recordings that look alike, only one has the problem.
//! `record.sh` made them. The parts of a serving program are compared with PyTorch's own counters. The buffers of
//! collectives are those of known sizes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vramscope_analysis::{AllocatorFinding, Certainty, CollectiveUse, Frames, Options, Summary};
use vramscope_trace::formats::Reader;

const MIB: u64 = 1 << 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

fn summary(name: &str) -> Summary {
    let trace = Reader::open(folder().join(format!("{name}.pickle.zst"))).unwrap().read().unwrap().trace;
    Summary::of(&trace, 0, &Frames::of(&trace), &Options::default())
}

/// The findings of a recording: the name, KiB and certainty of each.
fn findings(name: &str) -> Vec<(&'static str, u64, Certainty)> {
    let row = |f: &AllocatorFinding| (f.name(), f.bytes() >> 10, f.certainty());
    summary(name).findings.iter().map(row).collect()
}

#[test]
fn the_cache_of_a_stream_that_is_not_used_again() {
    // 100 and 60 MiB of staging.
    assert_eq!(findings("stranded"), [("stranded_cache", 160 << 10, Certainty::Likely)]);
    assert_eq!(findings("reused"), []);
    let summary = summary("stranded");
    let [AllocatorFinding::StrandedCache(cache)] = &summary.findings[..] else {
        panic!("{:?}", summary.findings)
    };
    assert_eq!((cache.streams.len(), cache.streams[0].blocks), (1, 2));
    // The weights, and 4 blocks in each of 20 steps.
    assert_eq!(cache.streams[0].later_requests, 5 + 20 * 4);
}

#[test]
fn a_block_that_became_free_too_late() {
    let summary = summary("late");
    let late = summary.findings.iter().find_map(|finding| match finding {
        AllocatorFinding::LateBlock(late) => Some(late),
        _ => None,
    });
    let late = late.unwrap();
    assert_eq!([late.request, late.block.size, late.waited], [300 * MIB; 3]);
    assert!(late.is_free && late.served.unwrap() > late.event && late.freed.0 < late.event);
    let of = |name: &str| findings(name).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    assert!(!of("late_and_too_small").contains(&"late_block"), "{:?}", of("late_and_too_small"));
}

#[test]
fn advice_of_pytorch_without_effect() {
    // Pages of 20 MiB: 430.5 MiB are in 440.
    assert_eq!(findings("advice_was_on"), [("ineffective_advice", 9728, Certainty::Shown)]);
    // A segment of 32 MiB for 30.5.
    assert_eq!(findings("advice_does_not_help"), [("ineffective_advice", 1536, Certainty::Likely)]);
    assert_eq!(findings("advice_helps"), []);
}

#[test]
fn the_cost_of_max_split_size() {
    let cost = |name: &str| match summary(name).findings[..] {
        [AllocatorFinding::UnsplitGrowth(growth)] if growth.is_exact => growth.bytes() / MIB,
        ref other => panic!("{name}: {other:?}"),
    };
    // 19 of 20 cycles map new pages for 136.5 MiB.
    assert!(cost("unsplit") > 19 * 136, "{}", cost("unsplit"));
    // 6 blocks of 50 MiB beside a free block of 400.
    assert_eq!(cost("unsplit_prefill"), 300);
    // Without the small block, and for growing requests, the setting costs nothing.
    assert_eq!((findings("split"), findings("growing")), (vec![], vec![]));
}

/// The buffers of collectives of a recording: the operation, whether on the default stream, KiB at the peak, blocks, KiB at their own peak.
fn collectives(name: &str) -> Vec<(&'static str, bool, u64, usize, u64)> {
    let row =
        |of: &CollectiveUse| (of.operation.name(), of.stream == 0, of.bytes >> 10, of.blocks, of.peak >> 10);
    summary(name).collectives.iter().map(row).collect()
}

#[test]
fn the_buffers_of_collectives() {
    // 4 layers of 1024 x 1024 parameters and 1024 biases: 4,100 KiB each. In the second step, both the first bucket, of all layers, and
    // the two rebuilt ones are live.
    let model = 4 * 4100;
    assert_eq!(
        collectives("ddp"),
        [("all_reduce", true, 2 * model, 3, 2 * model), ("broadcast", true, 0, 0, model)]
    );
    // A gathered layer, its copy as parameters, the gradients of a layer, and the scattered gradients of two.
    assert_eq!(
        collectives("fsdp"),
        [
            ("all_gather", false, 4100, 1, 2 * 4100),
            ("all_gather", true, 4100, 2, 4104),
            ("reduce_scatter", true, 4100, 1, 4104),
            ("reduce_scatter", false, 2 * 1025, 2, 4 * 1025),
        ]
    );
    assert_eq!(collectives("named_alike"), []);
}

/// The table of a serving program beside PyTorch's own counters at each part and the blocks of its tensors (`serving.json`).
#[test]
fn the_parts_of_a_serving_program() {
    let counted: Value =
        serde_json::from_slice(&std::fs::read(folder().join("serving.json")).unwrap()).unwrap();
    let summary = summary("serving");
    let (parts, serving) = (&counted["parts"], summary.serving.unwrap());
    assert_eq!(json!(serving.weights), parts["weights"]["allocated"]);
    assert_eq!(json!(serving.kv_cache), parts["kv_cache"]["allocated"]);
    let tagged = &counted["tagged"];
    assert_eq!(json!([serving.weights, serving.kv_cache]), json!([tagged["weights"], tagged["kv_cache"]]));
    assert_eq!(json!(serving.activations), parts["activations"]["peak"]);
    let sum = serving.weights + serving.kv_cache + serving.graphs + serving.other;
    assert_eq!(json!(sum), counted["allocated"]);

    // Each pool as PyTorch counts it.
    let pools = counted["pools"].as_object().unwrap();
    assert_eq!(summary.private_pools.len(), pools.len() - 1);
    for pool in &summary.private_pools {
        let of = &pools[&format!("({}, {})", pool.pool.0, pool.pool.1)];
        assert_eq!(&json!([pool.segments, pool.reserved, pool.allocated]), of);
    }

    // The pool of the 20 graphs, beside those of the weights and the KV cache.
    let of_graphs: Vec<u64> =
        summary.private_pools.iter().filter(|pool| pool.is_of_graphs).map(|pool| pool.allocated).collect();
    assert_eq!(of_graphs, [serving.graphs]);
    // The results that they retain for their replays are no leak.
    assert_eq!(summary.leaks, []);
    // Other programs have no such table.
    assert!(crate::summary("stranded").serving.is_none());
}

/// The captures of 12 graphs beside PyTorch's own counters (`captures.json`), and the steps of a program that uses a pool without graphs.
#[test]
fn captures_of_graphs_and_steps_in_a_pool() {
    let counted: Value =
        serde_json::from_slice(&std::fs::read(folder().join("captures.json")).unwrap()).unwrap();
    let graphs = summary("captures");
    let [pool] = &graphs.private_pools[..] else { panic!("{:?}", graphs.private_pools) };
    let captures: Vec<Value> = pool.captures.iter().map(|c| json!([c.reserved, c.allocated])).collect();
    assert_eq!((pool.is_of_graphs, json!(captures)), (true, counted));
    assert_eq!(pool.captures[0].largest_request, 96 * MIB);
    assert_eq!(graphs.leaks, []);

    let steps = summary("pool_steps");
    let [pool] = &steps.private_pools[..] else { panic!("{:?}", steps.private_pools) };
    assert_eq!((pool.is_of_graphs, pool.captures.len()), (false, 0));
    // 30 blocks of 2 MiB.
    assert_eq!(steps.leaks.iter().map(|leak| leak.kept_bytes).collect::<Vec<_>>(), [60 * MIB]);
}
