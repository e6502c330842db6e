//! Causes of a failure that the allocator's state shows. Each cause is planted alone and computed by hand.

use serde_json::{Value, json};
use vramscope_analysis::{Capacity, Frames, History, OomCauseKind, OomExplanation, Replay};
use vramscope_engine::{Allocator, Policy, TorchRelease};
use vramscope_trace::TorchSettings;

use crate::{MIB, alloc, free, recording};

/// Explains why the last of `events` fails under `conf` on a device of `mib` MiB, of which the allocator cannot use `overhead`.
fn fails(events: &[Value], conf: &str, mib: u64, overhead: u64) -> OomExplanation {
    let trace = recording(events, &[]);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    let release = TorchRelease::new(2, 11);
    let mut policy = Policy::torch(&TorchSettings::parse_for(conf, release).unwrap(), release);
    // The recording has no segments, so its own settings must not apply.
    policy.allocator = Allocator::Torch(TorchRelease::new(3, 0));
    let capacity = Capacity { total: mib * MIB, overhead: overhead * MIB };
    let oom = replay.explain(&Frames::of(&trace), &policy, capacity).unwrap().unwrap();
    assert_eq!(oom.event, events.len() - 1, "an earlier request failed");
    oom
}

/// Returns the first cause, which must be decisive, with its MiB.
fn first(oom: &OomExplanation) -> (OomCauseKind, u64) {
    let main = oom.causes.main().unwrap();
    assert_eq!(main.bytes % MIB, 0);
    (main.kind, main.bytes / MIB)
}

fn with(mut event: Value, key: &str, value: Value) -> Value {
    event[key] = value;
    event
}

/// `count` segments of 64 MiB, each with a block of 58 MiB that is freed at the end, followed by a block of 6 MiB that stays.
/// Blocks are numbered from `n`.
fn holes(n: u64, count: u64) -> Vec<Value> {
    let taken = (0..count).flat_map(|i| {
        let n = n + 3 * i;
        [alloc(n, 64 * MIB), free(n), alloc(n + 1, 58 * MIB), alloc(n + 2, 6 * MIB)]
    });
    let freed = (0..count).map(|i| free(n + 3 * i + 1));
    taken.chain(freed).collect()
}

#[test]
fn rounding() {
    // 33 MiB become 48: 15 MiB each.
    let mut events: Vec<Value> = (1..=4).map(|n| alloc(n, 33 * MIB)).collect();
    events.push(alloc(9, 64 * MIB));
    let oom = fails(&events, "roundup_power2_divisions:2", 200, 0);
    assert_eq!((first(&oom), oom.causes.lacking / MIB), ((OomCauseKind::Rounding, 60), 56));
}

#[test]
fn blocks_that_are_not_split() {
    // Each request of 22 MiB takes a cached segment of 40 MiB: 18 MiB are not split off.
    let mut events: Vec<Value> = (1..=3).map(|n| alloc(n, 40 * MIB)).collect();
    events.extend((1..=3).map(free));
    events.extend((4..=6).map(|n| alloc(n, 22 * MIB)));
    events.push(alloc(9, 18 * MIB));
    assert_eq!(first(&fails(&events, "max_split_size_mb:21", 130, 0)), (OomCauseKind::Unsplit, 54));
}

#[test]
fn free_memory_of_the_small_pool() {
    // Two blocks of 768 KiB per segment of 2 MiB: 512 KiB remain in each.
    let mut events: Vec<Value> = (1..=40).map(|n| alloc(n, 768 << 10)).collect();
    events.push(alloc(99, 30 * MIB));
    let oom = fails(&events, "", 64, 0);
    assert_eq!((first(&oom), oom.causes.lacking / MIB), ((OomCauseKind::OtherSize, 10), 6));
}

#[test]
fn free_memory_of_another_stream() {
    let on_stream = |event| with(event, "stream", json!(7));
    let mut events: Vec<Value> = holes(1, 3).into_iter().map(on_stream).collect();
    events.push(alloc(99, 50 * MIB));
    let oom = fails(&events, "", 200, 0);
    assert_eq!((first(&oom), oom.causes.lacking / MIB), ((OomCauseKind::OtherStream, 3 * 58), 42));
}

#[test]
fn free_memory_of_a_private_pool() {
    let in_pool = |event| with(event, "pool_id", json!([0, 1]));
    let mut events: Vec<Value> = holes(1, 3).into_iter().map(in_pool).collect();
    events.push(with(alloc(99, 50 * MIB), "pool_id", json!([0, 0])));
    assert_eq!(first(&fails(&events, "", 200, 0)), (OomCauseKind::OtherPool, 3 * 58));
}

#[test]
fn fragmentation() {
    let mut events = holes(1, 3);
    events.push(alloc(99, 70 * MIB));
    let oom = fails(&events, "", 200, 0);
    assert_eq!((first(&oom), oom.causes.lacking / MIB), ((OomCauseKind::TooSmall, 3 * 58), 62));
}

#[test]
fn a_limit() {
    let events = [alloc(1, 30 * MIB), alloc(2, 30 * MIB)];
    let oom = fails(&events, "per_process_memory_fraction:0.5", 100, 0);
    // 20 of 50 MiB remain below the limit.
    assert_eq!((first(&oom), oom.causes.lacking / MIB), ((OomCauseKind::Limit, 70), 10));
    assert!(oom.causes.is_exact);
}

#[test]
fn other_memory_of_the_device() {
    let events = [alloc(1, 700 * MIB), alloc(2, 300 * MIB)];
    let oom = fails(&events, "", 3000, 2200);
    assert_eq!((first(&oom), oom.causes.lacking / MIB), ((OomCauseKind::Outside, 2200), 200));
    // At most the size of the process's own CUDA context: other processes cannot free it.
    let oom = fails(&events, "", 1100, 300);
    assert_eq!(first(&oom), (OomCauseKind::Size, 200));
    assert!(!oom.causes.get(OomCauseKind::Outside).unwrap().is_decisive);
}

#[test]
fn size() {
    let oom = fails(&[alloc(1, 60 * MIB), alloc(2, 60 * MIB)], "", 100, 0);
    assert_eq!((first(&oom), oom.causes.lacking / MIB), ((OomCauseKind::Size, 20), 20));
}

#[test]
fn size_comes_before_settings_and_the_smaller_of_two_causes_last() {
    // Removing 45 MiB of rounding would not have been enough; only a larger device would.
    let mut events: Vec<Value> = (1..=3).map(|n| alloc(n, 33 * MIB)).collect();
    events.push(alloc(9, 64 * MIB));
    let oom = fails(&events, "roundup_power2_divisions:2", 150, 0);
    assert_eq!(first(&oom), (OomCauseKind::Size, 13));
    let others: Vec<_> = oom.causes.all[1..].iter().map(|c| (c.kind, c.bytes / MIB, c.is_decisive)).collect();
    assert_eq!(others, [(OomCauseKind::Rounding, 45, false)]);
    // Of two decisive causes, the larger comes first.
    let mut events = holes(1, 2);
    events.extend(holes(20, 1).into_iter().map(|event| with(event, "stream", json!(7))));
    events.push(alloc(99, 70 * MIB));
    let oom = fails(&events, "", 242, 0);
    let causes: Vec<_> = oom.causes.all.iter().map(|c| (c.kind, c.bytes / MIB, c.is_decisive)).collect();
    assert_eq!(causes, [(OomCauseKind::TooSmall, 116, true), (OomCauseKind::OtherStream, 58, true)]);
}
