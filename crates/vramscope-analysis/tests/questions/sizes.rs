//! Block sizes that follow from the layout: `round_size` and `should_split` of `c10/cuda/CUDACachingAllocator.cpp`, PyTorch 2.11.

use serde_json::{Value, json};
use vramscope_analysis::History;

use crate::{defaults, event, recording, segment};

const MIB: u64 = 1 << 20;
const BASE: u64 = 1 << 30;

/// The block sizes of the allocations of a trace, in order.
fn sizes(events: Vec<Value>, settings: Value) -> Vec<u64> {
    let trace = recording(events, Vec::new(), settings);
    History::of(&trace, 0).allocations.iter().map(|a| a.size).collect()
}

#[test]
fn a_remainder_above_one_mebibyte_is_split_off() {
    let from = |asked: u64| {
        sizes(vec![event("segment_alloc", BASE, 20 * MIB), event("alloc", BASE, asked)], defaults())
    };
    assert_eq!(from(3 * MIB), [3 * MIB]);
    assert_eq!(from(19 * MIB - 512), [19 * MIB - 512], "one mebibyte and a bit remains");
    assert_eq!(from(19 * MIB), [20 * MIB], "exactly one mebibyte stays inside");
    assert_eq!(from(20 * MIB), [20 * MIB]);
}

#[test]
fn a_free_block_reaches_to_the_next_block() {
    let events = vec![
        event("segment_alloc", BASE, 20 * MIB),
        event("alloc", BASE, 4 * MIB),
        event("alloc", BASE + 4 * MIB, 4 * MIB),
        event("free", BASE, 4 * MIB),
        event("alloc", BASE, 3 * MIB + 512),
    ];
    assert_eq!(sizes(events, defaults()), [4 * MIB, 4 * MIB, 4 * MIB]);
}

#[test]
fn a_block_that_waits_for_a_stream_is_not_free() {
    let events = |action: &str| {
        vec![
            event("segment_alloc", BASE, 20 * MIB),
            event("alloc", BASE, 4 * MIB),
            event("alloc", BASE + 4 * MIB, 4 * MIB),
            event("free", BASE, 4 * MIB),
            event(action, BASE + 4 * MIB, 4 * MIB),
            event("alloc", BASE, 3 * MIB + 512),
        ]
    };
    assert_eq!(sizes(events("free_requested"), defaults())[2], 4 * MIB);
    assert_eq!(sizes(events("free"), defaults())[2], 3 * MIB + 512);
}

#[test]
fn small_requests_and_expandable_segments_split_to_the_unit() {
    let small = vec![event("segment_alloc", BASE, 2 * MIB), event("alloc", BASE, MIB - 700)];
    assert_eq!(sizes(small, defaults()), [MIB - 512]);
    let expandable = json!({"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": true});
    let large = vec![event("segment_map", BASE, 20 * MIB), event("alloc", BASE, 19 * MIB + 1)];
    assert_eq!(sizes(large, expandable), [19 * MIB + 512]);
}

#[test]
fn blocks_of_the_split_limit_are_not_split() {
    let limit = json!({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "max_split_size": 64 * MIB});
    let from = |asked: u64| {
        sizes(vec![event("segment_alloc", BASE, 80 * MIB), event("alloc", BASE, asked)], limit.clone())
    };
    assert_eq!(from(63 * MIB), [63 * MIB]);
    assert_eq!(from(64 * MIB), [80 * MIB]);
}

#[test]
fn requests_round_by_the_recorded_divisions() {
    let divisions: serde_json::Map<String, Value> =
        (0..16).map(|i| ((1u64 << i).to_string(), json!(4))).collect();
    let settings = json!({"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:4", "roundup_power2_divisions": divisions});
    let events = vec![event("segment_alloc", BASE, 200 * MIB), event("alloc", BASE, 65 * MIB)];
    assert_eq!(sizes(events, settings), [80 * MIB]);
}

#[test]
fn a_segment_that_came_back_at_the_same_address_is_another() {
    let events = vec![
        event("segment_alloc", BASE, 20 * MIB),
        event("alloc", BASE, 2 * MIB),
        event("free", BASE, 2 * MIB),
        event("segment_free", BASE, 20 * MIB),
        event("segment_alloc", BASE, 30 * MIB),
        event("alloc", BASE, 29 * MIB),
    ];
    let trace = recording(events, Vec::new(), defaults());
    let history = History::of(&trace, 0);
    assert_eq!(history.allocations[1].size, 30 * MIB);
    assert!(history.quality.sizes_exact());
    let peaks = history.peaks();
    assert_eq!((peaks.reserved.bytes, peaks.reserved.moment.event()), (30 * MIB, Some(4)));
}

#[test]
fn the_size_of_a_block_from_before_recording_is_certain_if_no_larger_one_fits() {
    let free = |at: u64, size: u64| event("free", BASE + at * MIB, size * MIB);
    // The first block reaches to the second. The second leaves 1 MiB before the third: no free block is as small, so it belongs
    // to the second. The third leaves 2 MiB, of which some may belong to it.
    let events = vec![free(0, 4), free(4, 4), free(9, 9)];
    let end = segment(BASE, 20 * MIB, "large", &[]);
    let trace = recording(events, vec![end], defaults());
    let history = History::of(&trace, 0);
    let sizes: Vec<(u64, bool)> =
        history.allocations.iter().map(|a| (a.size / MIB, a.size_inferred)).collect();
    assert_eq!(sizes, [(4, false), (5, false), (9, true)]);
    assert_eq!(history.quality.inferred.inferred_sizes, 1);
}

#[test]
fn an_allocation_shows_the_end_of_the_block_before_it() {
    // `should_split`, 2.11: the front of a free block is allocated. The block that was live before recording leaves 4 MiB, and
    // the first request after it begins half a MiB later.
    let events = vec![event("alloc", BASE + 16 * MIB + MIB / 2, 3 * MIB), event("free", BASE, 16 * MIB)];
    let end = segment(
        BASE,
        20 * MIB,
        "large",
        &[
            (BASE, 16 * MIB + MIB / 2, 0, "inactive"),
            (BASE + 16 * MIB + MIB / 2, 3 * MIB + MIB / 2, 3 * MIB, "active_allocated"),
        ],
    );
    let trace = recording(events, vec![end], defaults());
    let history = History::of(&trace, 0);
    assert_eq!(history.allocations[1].size, 16 * MIB + MIB / 2);
    assert!(history.quality.sizes_exact());
}
