//! Tests each rule of PyTorch's allocator on a program small enough to compute by hand.
//!
//! The recordings contain only the requests: their addresses and segments are made up, so the replay's counters follow from the
//! rules alone. Names are those of `c10/cuda/CUDACachingAllocator.cpp`, 2.11.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_analysis::{
    Capacity, DeviceReplay, Frames, History, Outcome, Replay, ReplayDevice, ReplayLimitation, ReplayOptions,
    Setting,
};
use vramscope_engine::{Allocator, Policy, TorchRelease};
use vramscope_trace::formats::read;
use vramscope_trace::{TorchSettings, Trace};

use crate::{MIB, alloc, empty_cache, free, recording};

fn policy(conf: &str, release: (u32, u32)) -> Policy {
    let release = TorchRelease::new(release.0, release.1);
    Policy::torch(&TorchSettings::parse_for(conf, release).unwrap(), release)
}

/// The policy of a release, under the name of a later one: the recording has no segments, so its own settings must not apply.
fn not_the_recorded(conf: &str, release: (u32, u32)) -> Policy {
    let mut policy = policy(conf, release);
    policy.allocator = Allocator::Torch(TorchRelease::new(3, 0));
    policy
}

/// The outcome under `conf` on a device of `mib` MiB.
fn under(events: &[Value], conf: &str, mib: u64) -> Outcome {
    under_release(events, conf, mib, (2, 11))
}

fn under_release(events: &[Value], conf: &str, mib: u64, release: (u32, u32)) -> Outcome {
    let trace = recording(events, &[]);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let capacity = Capacity { total: mib * MIB, overhead: 0 };
    let policy = not_the_recorded(conf, release);
    replay.under(&policy, capacity).unwrap()
}

fn peaks(o: &Outcome) -> (u64, u64) {
    (o.statistics.allocated.peak, o.statistics.reserved.peak / MIB)
}

#[test]
fn requests_round_to_512_bytes() {
    // round_size
    let o = under(&[alloc(1, 1), alloc(2, 513), alloc(3, 1024)], "", 1000);
    assert_eq!(o.statistics.allocated.peak, 512 + 1024 + 1024);
    assert_eq!(o.statistics.requested.peak, 1 + 513 + 1024);
}

#[test]
fn divisions_round_between_powers_of_two_by_interval() {
    // roundup_power2_next_division; 1200 MiB is between 1024 and 2048.
    let asked = [alloc(1, 1200 * MIB), alloc(2, 300 * MIB)];
    let four = under(&asked, "roundup_power2_divisions:4", 4000);
    assert_eq!(four.statistics.allocated.peak, (1280 + 320) * MIB);
    let listed = under(&asked, "roundup_power2_divisions:[256:1,512:2,>:8]", 4000);
    // 256:1 is off for 300 MiB; above 512 there are eight steps of 128 MiB.
    assert_eq!(listed.statistics.allocated.peak, (1280 + 300) * MIB);
}

#[test]
fn segments_are_of_three_sizes() {
    // get_allocation_size
    for (asked, segment) in
        [(MIB, 2), (MIB + 1, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (10 * MIB + 1, 12)]
    {
        assert_eq!(under(&[alloc(1, asked)], "", 1000).statistics.reserved.peak / MIB, segment, "{asked}");
    }
    // large_segment_size (#172056)
    let large = under(&[alloc(1, 3 * MIB)], "large_segment_size_mb:64", 1000);
    assert_eq!(large.statistics.reserved.peak / MIB, 64);
}

#[test]
fn small_and_large_requests_never_share_a_segment() {
    // get_pool
    let o = under(&[alloc(1, 2 * MIB), free(1), alloc(2, 512)], "", 1000);
    assert_eq!(o.statistics.segments_allocated, 2);
}

#[test]
fn a_rest_of_more_than_1_mib_is_split_off_a_large_block() {
    // should_split: the first request leaves exactly 1 MiB, which stays with its block; the second leaves 512 bytes more.
    let one = under(&[alloc(1, 19 * MIB), free(1), alloc(2, 19 * MIB)], "", 1000);
    assert_eq!(peaks(&one), (20 * MIB, 20));
    let more = under(&[alloc(1, 12 * MIB), free(1), alloc(2, 11 * MIB - 512), alloc(3, MIB + 512)], "", 1000);
    assert_eq!(peaks(&more), (12 * MIB, 12));
}

#[test]
fn the_smallest_block_that_is_large_enough_serves() {
    // get_free_block: a hole of 4 MiB and one of 14 MiB; 3 MiB goes into the first, and 13 MiB still fit.
    let o = under(
        &[
            alloc(1, 4 * MIB),
            alloc(2, 2 * MIB),
            alloc(3, 14 * MIB),
            free(1),
            free(3),
            alloc(4, 3 * MIB),
            alloc(5, 13 * MIB),
        ],
        "",
        1000,
    );
    assert_eq!(o.statistics.reserved.peak / MIB, 20);
    assert_eq!(o.statistics.segments_allocated, 1);
}

#[test]
fn among_blocks_of_one_size_the_release_decides_between_the_lowest_and_the_oldest() {
    // BlockComparatorSize; #183591. There are two free blocks of 12 MiB. One is in an old segment next to a block in use. The
    // other fills a younger segment at a lower address, where an earlier one was released. The younger segment can be released
    // only if the request takes the other block.
    let events = [
        alloc(1, 30 * MIB),
        alloc(2, 8 * MIB),
        alloc(3, 12 * MIB),
        free(1),
        empty_cache(1),
        alloc(4, 12 * MIB),
        free(3),
        free(4),
        alloc(5, 12 * MIB),
        empty_cache(2),
    ];
    let freed = |release| under_release(&events, "", 1000, release).statistics.segments_freed;
    assert_eq!((freed((2, 6)), freed((2, 11))), (1, 1));
    assert_eq!(freed((2, 15)), 2);
}

#[test]
fn blocks_join_within_their_segment_only() {
    // try_merge_blocks
    let o = under(&[alloc(1, 10 * MIB), alloc(2, 10 * MIB), free(1), free(2), alloc(3, 20 * MIB)], "", 1000);
    assert_eq!(o.statistics.segments_allocated, 3);
    let o = under(&[alloc(1, 5 * MIB), alloc(2, 9 * MIB), free(1), free(2), alloc(3, 20 * MIB)], "", 1000);
    assert_eq!(o.statistics.segments_allocated, 1);
}

#[test]
fn blocks_from_max_split_size_on_are_not_split_and_serve_only_large_requests() {
    let freed_30 = [alloc(1, 30 * MIB), free(1)];
    // Without it, 3 MiB are cut from the 30.
    let o = under(&[&freed_30[..], &[alloc(2, 3 * MIB)]].concat(), "", 1000);
    assert_eq!(o.statistics.segments_allocated, 1);
    let o = under(&[&freed_30[..], &[alloc(2, 3 * MIB)]].concat(), "max_split_size_mb:20", 1000);
    assert_eq!(o.statistics.segments_allocated, 2);
    // A large request takes the whole block if the block's size is below the request plus max_non_split_rounding (#136174), 20
    // MiB by default.
    let o = under(&[&freed_30[..], &[alloc(2, 22 * MIB)]].concat(), "max_split_size_mb:20", 1000);
    assert_eq!((o.statistics.segments_allocated, o.statistics.allocated.current), (1, 30 * MIB));
    let freed_60 = [alloc(1, 60 * MIB), free(1), alloc(2, 30 * MIB)];
    assert_eq!(under(&freed_60, "max_split_size_mb:20", 1000).statistics.segments_allocated, 2);
    let wide = "max_split_size_mb:20,max_non_split_rounding_mb:31";
    assert_eq!(under(&freed_60, wide, 1000).statistics.segments_allocated, 1);
}

#[test]
fn oversize_blocks_are_released_before_the_whole_cache() {
    // release_available_cached_blocks: 40 and 30 MiB are enough for 60, and this is no retry. The cached 20 MiB of the first size
    // class stay.
    let sizes = [30 * MIB, 40 * MIB, 3 * MIB, 60 * MIB];
    let [a, b, c, d] = [1, 2, 3, 4].map(|n| alloc(n, sizes[n as usize - 1]));
    let events = [a, b, c, free(1), free(2), free(3), d];
    let freed = |conf: &str, mib: u64| {
        let s = under(&events, conf, mib).statistics;
        (s.segments_freed, s.num_alloc_retries)
    };
    assert_eq!(freed("max_split_size_mb:21", 170), (0, 0));
    assert_eq!(freed("max_split_size_mb:21", 100), (2, 0));
    assert_eq!(freed("", 100), (3, 1));
}

#[test]
fn garbage_is_collected_by_age_above_a_part_of_the_limit() {
    // garbage_collect_cached_blocks: of two free segments, the one that is older than the average is collected.
    let events = [
        alloc(1, 30 * MIB),
        alloc(2, 40 * MIB),
        free(1),
        alloc(3, 512),
        alloc(4, 60 * MIB),
        alloc(5, 60 * MIB),
        free(2),
        alloc(6, 70 * MIB),
    ];
    let conf = "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9";
    let o = under(&events, conf, 400);
    // 192 MiB are reserved, more than half of 360: the 30 MiB have been free for longer than the 40.
    assert_eq!((o.statistics.segments_freed, o.statistics.reserved.freed / MIB), (1, 30));
    // Without a limit, the threshold has no effect.
    let o = under(&events, "garbage_collection_threshold:0.5", 400);
    assert_eq!(o.statistics.segments_freed, 0);
}

#[test]
fn a_limit_stops_growth_though_the_device_has_room() {
    // alloc_block; per_process_memory_fraction in the text since #161035.
    let o = under(&[alloc(1, 40 * MIB), alloc(2, 40 * MIB)], "per_process_memory_fraction:0.5", 100);
    let failure = o.failure.unwrap();
    assert_eq!((failure.event, failure.device_free / MIB), (1, 60));
    assert!(under(&[alloc(1, 40 * MIB), alloc(2, 40 * MIB)], "", 100).fits());
}

#[test]
fn a_full_device_gets_the_cache_and_the_request_is_retried() {
    // malloc: release_cached_blocks, alloc_block(isRetry)
    let events = [alloc(1, 40 * MIB), alloc(2, 20 * MIB), free(1), free(2), alloc(3, 70 * MIB)];
    let o = under(&events, "", 100);
    assert_eq!((o.statistics.num_alloc_retries, o.statistics.segments_freed), (1, 2));
    assert!(o.fits() && !o.stopped);
    let o = under(&events, "", 69);
    assert_eq!(o.failure.unwrap().event, 4);
    assert_eq!(o.statistics.num_ooms, 1);
    assert!(o.stopped);
}

#[test]
fn a_device_gives_whole_pages_of_2_mib() {
    assert!(under(&[alloc(1, 512), alloc(2, 10 * MIB)], "", 12).fits());
    assert!(!under(&[alloc(1, 512), alloc(2, 10 * MIB + 1)], "", 12).fits());
}

#[test]
fn expandable_segments_grow_by_pages_of_2_and_20_mib() {
    // try_allocate_expandable_block, map_block
    let conf = "expandable_segments:True";
    let o = under(&[alloc(1, 512), alloc(2, 30 * MIB), alloc(3, 15 * MIB)], conf, 1000);
    assert_eq!(o.statistics.reserved.peak / MIB, 2 + 40 + 20);
    // One address range: 10 MiB of the second page remain, and 5 more are needed.
    assert_eq!((o.statistics.num_device_alloc, o.statistics.segments_allocated), (3, 0));
    // Every remainder of at least 512 bytes is split off.
    let o = under(&[alloc(1, 19 * MIB), alloc(2, MIB - 512 + 1)], conf, 1000);
    assert_eq!(o.statistics.allocated.peak, 19 * MIB + MIB);
}

#[test]
fn whole_free_pages_of_expandable_segments_are_unmapped() {
    // unmap_block: the pages inside the free block, but not those that other blocks still use.
    let events = [alloc(1, 50 * MIB), alloc(2, 5 * MIB), free(1), empty_cache(1), alloc(3, 10 * MIB)];
    let o = under(&events, "expandable_segments:True", 1000);
    // 60 MiB were mapped; 0 to 40 are unmapped; 10 MiB fit into the rest of the third page.
    assert_eq!((o.statistics.reserved.peak / MIB, o.statistics.reserved.freed / MIB), (60, 40));
    assert_eq!(o.statistics.reserved.current / MIB, 20);
}

#[test]
fn streams_share_no_blocks() {
    let on = |stream: u64, mut event: Value| {
        event["stream"] = json!(stream);
        event
    };
    let events = [on(0, alloc(1, 3 * MIB)), on(0, free(1)), on(7, alloc(2, 3 * MIB))];
    assert_eq!(under(&events, "", 1000).statistics.segments_allocated, 2);
}

#[test]
fn a_block_that_another_stream_uses_waits_as_long_as_it_did() {
    // insert_events, process_events: completed after the next request, which cannot use the block.
    let mut requested = free(1);
    requested["action"] = json!("free_requested");
    let mut completed = free(1);
    completed["action"] = json!("free_completed");
    let events = [alloc(1, 12 * MIB), requested, alloc(2, 12 * MIB), completed, alloc(3, 12 * MIB)];
    let o = under(&events, "", 1000);
    assert_eq!(o.statistics.segments_allocated, 2);
    assert_eq!((o.statistics.active.peak / MIB, o.statistics.allocated.peak / MIB), (24, 24));
    // On a device without room for two blocks, the allocator waits for it (synchronize_and_free_events).
    let o = under(&events[..4], "", 20);
    assert!(o.fits());
    assert_eq!((o.statistics.num_alloc_retries, o.statistics.active.peak / MIB), (1, 12));
}

#[test]
fn private_pools_keep_their_blocks_to_themselves() {
    // MemPool; pool_id of an event since #177717.
    let of = |pool: u64, mut event: Value| {
        event["pool_id"] = json!([0, pool]);
        event
    };
    let events = [
        of(1, alloc(1, 12 * MIB)),
        of(1, free(1)),
        of(0, alloc(2, 12 * MIB)),
        of(0, free(2)),
        of(0, alloc(3, 30 * MIB)),
    ];
    let o = under(&events, "", 50);
    assert_eq!(o.statistics.segments_allocated, 3);
    // The retry releases the cache of the default pool, but not that of the private pool.
    assert_eq!((o.statistics.num_alloc_retries, o.statistics.segments_freed), (1, 1));
}

#[test]
fn a_request_that_failed_when_recorded_and_is_now_served_is_freed() {
    let oom = json!({"action": "oom", "device_free": 0, "size": 40 * MIB, "stream": 0, "frames": []});
    let events = [alloc(1, 30 * MIB), oom, alloc(2, 12 * MIB)];
    let o = under(&events, "", 100);
    assert_eq!((o.rescued, o.fits(), o.statistics.reserved.peak / MIB), (1, true, 70));
    assert_eq!(o.statistics.allocated.current, 42 * MIB);
    // If it fails again, the program continues as recorded.
    let o = under(&events, "", 50);
    assert_eq!((o.rescued, o.failure.unwrap().recorded, o.stopped), (0, true, false));
    assert_eq!(o.statistics.num_ooms, 1);
}

#[test]
fn the_stack_distinguishes_an_emptied_cache_from_a_retry() {
    // In both cases, 20 MiB are released before 30 MiB are allocated. Inside the request, the release has the request's stack.
    let frames = |name: &str| json!([{"name": name, "filename": "/home/u/train.py", "line": 1}]);
    let at = |name: &str, mut event: Value| {
        event["frames"] = frames(name);
        event
    };
    let trace = |who: &str| -> Arc<Trace> {
        let segment = |action: &str, addr: u64, size: u64| json!({"action": action, "addr": addr, "size": size, "stream": 0});
        let base = 64 * MIB;
        let events = [
            at("a", segment("segment_alloc", base, 20 * MIB)),
            at("a", json!({"action": "alloc", "addr": base, "size": 20 * MIB - MIB, "stream": 0})),
            at("b", json!({"action": "free_requested", "addr": base, "size": 20 * MIB - MIB, "stream": 0})),
            at("b", json!({"action": "free_completed", "addr": base, "size": 20 * MIB - MIB, "stream": 0})),
            at(who, segment("segment_free", base, 20 * MIB)),
            at("c", segment("segment_alloc", 2 * base, 30 * MIB)),
            at("c", json!({"action": "alloc", "addr": 2 * base, "size": 30 * MIB, "stream": 0})),
        ];
        recording(&events, &[(2 * base, 30 * MIB)])
    };
    for (who, retries, freed) in [("c", 0, 0), ("empty_cache", 0, 1)] {
        let trace = trace(who);
        let history = History::of(&trace, 0);
        let replay = Replay::of(&history).unwrap();
        assert_eq!(replay.reproduction.first_difference, None, "{who}");
        // On a large device, there is no retry, but the program's own release happens.
        let roomy = Capacity { total: 1000 * MIB, overhead: 0 };
        let mut other = replay.policy.clone();
        other.max_split_size = Some(400 * MIB);
        let s = replay.under(&other, roomy).unwrap().statistics;
        assert_eq!((s.num_alloc_retries, s.segments_freed), (retries, freed), "{who}");
    }
}

/// An event of the function `name`, on stream 0.
fn at(name: &str, action: &str, addr: u64, size: u64) -> Value {
    let frames = json!([{"name": name, "filename": "/home/u/train.py", "line": 1}]);
    json!({"action": action, "addr": addr, "size": size, "stream": 0, "frames": frames})
}

#[test]
fn a_block_that_a_request_waits_for_right_behind_its_free_does_not_serve_it() {
    // synchronize_and_free_events: another stream still uses 30 MiB when 30 MiB are requested on a full device.
    let base = 64 * MIB;
    let trace = |freed: &str, who: &str| -> Arc<Trace> {
        let events = [
            at("a", "segment_alloc", base, 30 * MIB),
            at("a", "alloc", base, 30 * MIB),
            at(freed, "free_requested", base, 30 * MIB),
            at(who, "free_completed", base, 30 * MIB),
            at(who, "segment_free", base, 30 * MIB),
            at(who, "segment_alloc", 2 * base, 30 * MIB),
            at(who, "alloc", 2 * base, 30 * MIB),
        ];
        recording(&events, &[(2 * base, 30 * MIB)])
    };
    // The completion has the stack of the waiting request, or all events have the same stack, as in a backward pass.
    for (freed, who) in [("b", "c"), ("backward", "backward")] {
        let trace = trace(freed, who);
        let history = History::of(&trace, 0);
        let replay = Replay::of(&history).unwrap();
        assert_eq!(replay.reproduction.first_difference, None, "{who}");
        let s = replay.reproduction.outcome.statistics;
        assert_eq!((s.num_alloc_retries, s.active.peak / MIB), (1, 30), "{who}");
        // On a large device there is no wait, and the block is still not available.
        let roomy = Capacity { total: 1000 * MIB, overhead: 0 };
        let s = replay.under(&replay.policy, roomy).unwrap().statistics;
        assert_eq!((s.num_alloc_retries, s.segments_freed, s.reserved.peak / MIB), (0, 0, 60), "{who}");
    }
}

#[test]
fn memory_released_before_a_wait_was_free_before_it() {
    // release_available_cached_blocks releases 40 free MiB, which is not enough; then the allocator waits for 30 MiB that another
    // stream uses. The stacks do not show the order.
    let [a, b, c] = [1, 2, 3].map(|n| n * 64 * MIB);
    let events = [
        at("f", "segment_alloc", a, 30 * MIB),
        at("f", "alloc", a, 30 * MIB),
        at("f", "segment_alloc", b, 40 * MIB),
        at("f", "alloc", b, 40 * MIB),
        at("f", "free_requested", a, 30 * MIB),
        at("f", "free_requested", b, 40 * MIB),
        at("f", "free_completed", b, 40 * MIB),
        at("f", "segment_free", b, 40 * MIB),
        at("f", "free_completed", a, 30 * MIB),
        at("f", "segment_free", a, 30 * MIB),
        at("f", "segment_alloc", c, 100 * MIB),
        at("f", "alloc", c, 100 * MIB),
    ];
    let mut trace = recording(&events, &[(c, 100 * MIB)]);
    Arc::make_mut(&mut trace).settings =
        Some(TorchSettings::parse_for("max_split_size_mb:21", TorchRelease::new(2, 11)).unwrap().into());
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    assert_eq!(replay.reproduction.first_difference, None);
    let s = replay.reproduction.outcome.statistics;
    assert_eq!((s.num_alloc_retries, s.segments_freed), (1, 2));
}

#[test]
fn a_failure_is_explained_by_the_layout_of_the_replay() {
    // Two segments of 20 MiB, neither of them entirely free: 9 and 3 MiB are free in one, 9 and 7 in the other.
    let events = [
        alloc(1, 4 * MIB),
        alloc(2, 9 * MIB),
        alloc(3, 4 * MIB),
        alloc(4, 9 * MIB),
        alloc(5, 4 * MIB),
        free(2),
        free(4),
        alloc(6, 10 * MIB),
    ];
    let trace = recording(&events, &[]);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let frames = Frames::of(&trace);
    let policy = not_the_recorded("", (2, 11));
    let capacity = Capacity { total: 48 * MIB, overhead: 0 };
    let oom = replay.explain(&frames, &policy, capacity).unwrap().unwrap();
    assert_eq!((oom.request.bytes, oom.event, oom.device_free), (10 * MIB, 7, 8 * MIB));
    let held: u64 = oom.holders.iter().map(|h| h.bytes).sum();
    assert_eq!(held, oom.counters.allocated);
    let f = &oom.fragmentation;
    assert_eq!((f.external, f.usable, f.unusable_bytes()), (28 * MIB, 0, 28 * MIB));
    assert_eq!(f.largest.map(|b| b.size), Some(9 * MIB));
    assert!(oom.enough_in_total());
}

#[test]
fn the_smallest_device_is_found_to_the_page() {
    let trace = recording(&[alloc(1, 30 * MIB), free(1), alloc(2, 40 * MIB)], &[]);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let policy = not_the_recorded("", (2, 11));
    let (bytes, outcome) = replay.smallest_capacity(&policy, 6 * MIB, &|| {}).unwrap();
    assert_eq!((bytes / MIB, outcome.statistics.num_alloc_retries), (46, 1));
}

/// A recording that begins with one block of 50 MiB in its own segment.
fn late() -> Arc<Trace> {
    let base = 1 << 40;
    recording(&[alloc(1, 3 * MIB), free(1)], &[(base, 50 * MIB)])
}

#[test]
fn memory_from_before_recording_needs_room_too() {
    let trace = late();
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let on = |mib: u64| {
        let capacity = Capacity { total: mib * MIB, overhead: 0 };
        let outcome = replay.under(&replay.policy, capacity).unwrap();
        (
            outcome.fits(),
            replay.limitations(&replay.policy, capacity).contains(&ReplayLimitation::Preexisting(1)),
        )
    };
    // 50 MiB as originally laid out, and 20 for the request.
    assert_eq!(on(70), (true, false));
    assert_eq!(on(69), (false, false));
    // No room even for the blocks of the start: their addresses would be unknown.
    assert_eq!(on(40), (false, true));
    let (bytes, _) = replay.smallest_capacity(&replay.policy, 0, &|| {}).unwrap();
    assert_eq!(bytes / MIB, 70);
}

#[test]
fn the_whole_device_is_no_limit() {
    // setMemoryFraction: nothing is collected, and all memory may be reserved.
    let events = [alloc(1, 60 * MIB), free(1), alloc(2, 30 * MIB), alloc(3, 40 * MIB)];
    let all = under(&events, "garbage_collection_threshold:0.5,per_process_memory_fraction:1.0", 100);
    let none = under(&events, "garbage_collection_threshold:0.5", 100);
    assert_eq!(all, none);
}

#[test]
fn a_limit_of_unknown_size_is_doubted() {
    let trace = recording(&[alloc(1, 3 * MIB)], &[]);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let limited = policy("per_process_memory_fraction:0.5", (2, 11));
    assert!(replay.limitations(&limited, ReplayDevice::Unlimited).contains(&ReplayLimitation::UnknownLimit));
    let known = Capacity { total: 100 * MIB, overhead: 0 };
    assert!(!replay.limitations(&limited, known).contains(&ReplayLimitation::UnknownLimit));
}

#[test]
fn a_failure_at_a_limit_is_not_reported_as_fragmentation() {
    let trace = recording(&[alloc(1, 30 * MIB), alloc(2, 30 * MIB)], &[]);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let explain = |fraction: &str, mib: u64| {
        let policy = policy(&format!("per_process_memory_fraction:{fraction}"), (2, 11));
        let capacity = Capacity { total: mib * MIB, overhead: 0 };
        replay.explain(&Frames::of(&trace), &policy, capacity).unwrap().unwrap().at_limit
    };
    assert!(explain("0.5", 100));
    // Here the device itself does not have enough free memory.
    assert!(!explain("0.9", 50));
}

#[test]
fn collections_of_a_recording_are_not_repeated_under_other_settings() {
    // Recorded with a limit: 20 MiB were collected before 30 were allocated.
    let at = |action: &str, addr: u64, size: u64| json!({"action": action, "addr": addr, "size": size, "stream": 0});
    let base = 0x7f00_0000_0000u64;
    let events = [
        at("segment_alloc", base, 20 * MIB),
        at("alloc", base, 19 * MIB),
        at("free_requested", base, 19 * MIB),
        at("free_completed", base, 19 * MIB),
        at("segment_free", base, 20 * MIB),
        at("segment_alloc", base, 30 * MIB),
        at("alloc", base, 30 * MIB),
    ];
    let mut trace = recording(&events, &[(base, 30 * MIB)]);
    let conf = "garbage_collection_threshold:0.1,per_process_memory_fraction:0.5";
    Arc::make_mut(&mut trace).settings =
        Some(TorchSettings::parse_for(conf, TorchRelease::new(2, 11)).unwrap().into());
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    assert_eq!(replay.reproduction.first_difference, None);
    assert_eq!(replay.reproduction.outcome.statistics.segments_freed, 1);
    let roomy = Capacity { total: 10_000 * MIB, overhead: 0 };
    for policy in [policy("", (2, 11)), replay.policy.clone()] {
        let s = replay.under(&policy, roomy).unwrap().statistics;
        assert_eq!((s.segments_freed, s.reserved.peak / MIB), (0, 50), "{policy:?}");
    }
}

/// Under the recorded rules, and under others with and without an effect on the recording.
#[test]
fn a_device_is_the_same_under_any_rules() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/oom.pickle");
    let recording = read(std::fs::File::open(file).unwrap()).unwrap();
    let trace = Arc::new(recording.trace);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let recorded = replay.recorded_capacity().unwrap();
    let frames = Frames::of(&trace);
    for conf in ["", "max_split_size_mb:64", "max_split_size_mb:1000000", "expandable_segments:True"] {
        let setting = Setting::parse(conf, trace.shown_release()).unwrap();
        let options = ReplayOptions { setting: Some(setting.clone()), ..ReplayOptions::default() };
        let answer = DeviceReplay::of(&trace, 0, &frames, &options, &|| {}).unwrap().asked;
        let policy = &answer.setting.policy;
        let on = |device: ReplayDevice| replay.under(policy, device).unwrap();
        assert_eq!(on(ReplayDevice::Recorded), answer.outcome, "{conf}");
        assert_eq!(on(ReplayDevice::Recorded), on(recorded.into()), "{conf}");
        let roomy = Capacity { total: 1 << 40, overhead: 0 };
        assert!(on(ReplayDevice::Unlimited).fits(), "{conf}");
        assert_eq!(on(ReplayDevice::Unlimited).statistics, on(roomy.into()).statistics, "{conf}");
    }
    assert!(!replay.under(&replay.policy, ReplayDevice::Recorded).unwrap().fits());
}
