//! The parts of a serving program's memory.

use serde_json::json;
use vramscope_analysis::{Frames, Moment, Options, ServingMemory, Summary};

use crate::{at_line, defaults, event, recording, segment};

#[test]
fn a_server_that_ends_has_the_parts_of_the_last_moment_before_it_frees_its_cache() {
    let base = 1 << 40;
    let place = |block: u64| base + block * (1 << 20);
    let cache = |block| {
        let mut e = event("alloc", place(block), 1 << 20);
        e["frames"] =
            json!([{"name": "allocate", "filename": "/opt/vllm/v1/core/kv_cache_utils.py", "line": 7}]);
        e
    };
    let free = |block, size| {
        [event("free_requested", place(block), size), event("free_completed", place(block), size)]
    };
    let mut events = vec![event("segment_alloc", base, 20 << 20), cache(0), cache(1)];
    events.push(at_line("alloc", place(2), 512 << 10, 3));
    for _ in 0..2 {
        events.push(at_line("alloc", place(3), 3 << 20, 5));
        events.extend(free(3, 3 << 20));
    }
    let last = events.len() - 1;
    events.extend(free(0, 1 << 20));
    // After the cache is gone, nothing counts.
    events.push(at_line("alloc", place(8), 8 << 20, 9));
    for (block, size) in [(8, 8 << 20), (1, 1 << 20), (2, 512 << 10)] {
        events.extend(free(block, size));
    }
    let segments = vec![segment(base, 20 << 20, "large", &[(base, 20 << 20, 0, "inactive")])];
    let trace = recording(events, segments, defaults());
    let serving = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default()).serving.unwrap();
    assert_eq!(
        serving,
        ServingMemory {
            moment: Moment::after(last),
            weights: 0,
            kv_cache: 2 << 20,
            graphs: 0,
            other: 512 << 10,
            activations: 3 << 20,
            activations_event: Some(4),
        }
    );
}
