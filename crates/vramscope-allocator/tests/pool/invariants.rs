//! Random programs under every policy. Independent checks verify the pool's layout and counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vramscope_allocator::{
    AllocError, Allocation, DevicePool, HistoryOptions, MemoryPool, Policy, Statistics, TorchRelease,
    VirtualDevice,
};
use vramscope_analysis::{History, Replay};
use vramscope_trace::{Action, BlockState, DeviceTrace, Trace};

use crate::{MIB, torch};

/// One step of a program. Indices select from the live objects.
#[derive(Debug, Clone)]
enum Step {
    Malloc { stream: u64, size: u64 },
    MallocPrivate { size: u64 },
    Free(usize),
    RecordStream(usize, u64),
    SetBusy(u64, bool),
    FreeAllBlocks,
    ResetPeaks,
    OpenScope,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![
        4 => 1u64..5000,
        3 => (1u64..2000).prop_map(|k| k * 1024),
        3 => 1u64..40 * MIB,
        1 => Just(200 * MIB),
    ];
    prop_oneof![
        8 => (0u64..3, size.clone()).prop_map(|(stream, size)| Step::Malloc { stream, size }),
        1 => size.prop_map(|size| Step::MallocPrivate { size }),
        8 => any::<usize>().prop_map(Step::Free),
        2 => (any::<usize>(), 0u64..3).prop_map(|(i, s)| Step::RecordStream(i, s)),
        1 => (0u64..3, any::<bool>()).prop_map(|(s, busy)| Step::SetBusy(s, busy)),
        1 => Just(Step::FreeAllBlocks),
        1 => Just(Step::ResetPeaks),
        1 => Just(Step::OpenScope),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let conf = prop::sample::select(vec![
        "",
        "expandable_segments:True",
        "max_split_size_mb:21",
        "roundup_power2_divisions:4",
        "garbage_collection_threshold:0.5,per_process_memory_fraction:0.6",
        "large_segment_size_mb:32",
        "expandable_segments:True,roundup_power2_divisions:[4:1,16:2,>:8]",
        "max_split_size_mb:24,garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
        "max_split_size_mb:24,max_non_split_rounding_mb:40",
        // PyTorch refuses these; the pool must handle them safely.
        "max_split_size_mb:24,large_segment_size_mb:32",
        "max_split_size_mb:5",
        "large_segment_size_mb:8",
        "large_segment_size_mb:0,expandable_segments:True",
    ]);
    let release = prop::sample::select(vec![(2, 6), (2, 11), (2, 15)]);
    prop_oneof![
        1 => Just(Policy::cupy()),
        3 => (conf, release).prop_map(|(conf, (major, minor))| torch(conf, TorchRelease::new(major, minor))),
    ]
}

/// A live allocation of the program.
struct Live {
    allocation: Allocation,
    requested: u64,
}

/// Checks that blocks tile their segments, segments do not overlap, no two neighbors are free, and the program's allocations are the pool's
/// live blocks.
fn check_layout(device: &DeviceTrace, live: &[Live], pending: bool) {
    let mut end = 0;
    let mut active = BTreeMap::new();
    for segment in &device.segments {
        assert!(segment.address >= end, "segments overlap at {:#x}", segment.address);
        end = segment.address + segment.total_size;
        let mut at = segment.address;
        let mut free_before = false;
        for block in device.blocks_of(segment) {
            assert_eq!(block.address, at, "a gap or an overlap");
            assert!(block.size > 0 && block.size % 512 == 0, "{block:?}");
            let free = block.state == BlockState::Inactive;
            assert!(!(free && free_before), "two free neighbours at {at:#x}");
            free_before = free;
            if !free {
                active.insert(block.address, *block);
            }
            at += block.size;
        }
        assert_eq!(at, end, "blocks do not fill the segment");
    }
    for Live { allocation, requested } in live {
        let block = active.remove(&allocation.address()).unwrap();
        assert_eq!(block.state, BlockState::ActiveAllocated);
        assert_eq!((block.size, block.requested_size), (allocation.size(), *requested));
        assert!(allocation.size() >= *requested);
    }
    assert!(pending || active.is_empty(), "active blocks that the program does not have: {active:?}");
    if !live.is_empty() {
        assert!(active.values().all(|b| b.state == BlockState::ActivePendingFree));
    }
}

/// Checks the current values against sums over blocks and segments.
fn check_current(device: &DeviceTrace, live: &[Live], s: &Statistics) {
    let reserved: u64 = device.segments.iter().map(|segment| segment.total_size).sum();
    let active: u64 = device.blocks.iter().filter(|b| b.state.is_active()).map(|b| b.size).sum();
    let requested: u64 = device.blocks.iter().filter(|b| b.state.is_active()).map(|b| b.requested_size).sum();
    let allocated: u64 = live.iter().map(|l| l.allocation.size()).sum();
    let free = device.blocks.iter().filter(|b| b.state == BlockState::Inactive).count() as u64;
    assert_eq!(s.reserved.current, reserved);
    assert_eq!(s.active.current, active);
    assert_eq!(s.requested.current, requested);
    assert_eq!(s.allocated.current, allocated);
    assert_eq!(s.num_free_blocks, free);
    assert_eq!(s.num_allocations - s.num_frees, live.len() as u64);
    for stat in [s.requested, s.allocated, s.active, s.reserved, s.device_used] {
        assert_eq!(stat.allocated - stat.freed, stat.current);
        assert!(stat.peak >= stat.current);
    }
}

/// Recounts requested and reserved bytes from the recorded events: (peak, sum of allocations) of each.
fn recount(device: &DeviceTrace) -> [(u64, u64); 2] {
    let (mut now, mut out) = ([0u64; 2], [(0, 0); 2]);
    for event in device.events.iter() {
        let (kind, rises) = match event.action {
            Action::Alloc => (0, true),
            Action::FreeCompleted => (0, false),
            Action::SegmentAlloc | Action::SegmentMap => (1, true),
            Action::SegmentFree | Action::SegmentUnmap => (1, false),
            _ => continue,
        };
        if rises {
            now[kind] += event.size;
            out[kind].1 += event.size;
            out[kind].0 = out[kind].0.max(now[kind]);
        } else {
            now[kind] -= event.size;
        }
    }
    out
}

/// Returns the peaks of allocated and active bytes by the analysis of a recording, which follows the layout from the requests and
/// addresses.
fn analysed_peaks(trace: &Arc<Trace>) -> (u64, u64) {
    let history = History::of(trace, 0);
    let peaks = history.peaks();
    (peaks.allocated.bytes, peaks.active.bytes)
}

/// Whether a recording of such a run contains everything that determines block addresses.
fn is_told(policy: &Policy, s: &Statistics) -> bool {
    let conf = policy.settings().conf_text.unwrap_or_default();
    let is_accepted = policy.release().is_none()
        || vramscope_trace::TorchSettings::parse_for(&conf, TorchRelease::new(2, 15)).is_ok();
    // Addresses that were reserved for a failed request are not recorded.
    let hides_addresses = policy.expandable_segments && s.num_ooms > 0;
    is_accepted && !hides_addresses
}

/// Checks that a replay under the recorded settings reproduces every segment event and block.
fn check_replay(trace: &Arc<Trace>, s: &Statistics, was_reset: bool) {
    let history = History::of(trace, 0);
    let replay = Replay::of(&history).unwrap();
    assert_eq!(replay.reproduction.first_difference, None);
    let replayed = replay.reproduction.outcome.statistics;
    assert_eq!(
        (
            replayed.segments_allocated,
            replayed.segments_freed,
            replayed.num_device_alloc,
            replayed.num_device_free
        ),
        (s.segments_allocated, s.segments_freed, s.num_device_alloc, s.num_device_free)
    );
    if !was_reset {
        let peaks = |s: &Statistics| [s.requested, s.allocated, s.active, s.reserved].map(|stat| stat.peak);
        assert_eq!(peaks(&replayed), peaks(s));
    }
}

fn malloc(device: &DevicePool, stream: u64, size: u64) -> Option<Live> {
    match device.malloc_on(stream, size) {
        Ok(allocation) => Some(Live { allocation, requested: size }),
        Err(AllocError::OutOfMemory(_)) => None,
        Err(e) => panic!("{e}"),
    }
}

fn recording() -> HistoryOptions {
    HistoryOptions { context: None, ..HistoryOptions::default() }
}

/// Records every event with its stack. In a program with one thread, stacks show which call released memory.
fn recording_stacks() -> HistoryOptions {
    HistoryOptions::default()
}

/// 300 programs, or the number in `PROPTEST_CASES`.
fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() {
        default
    } else {
        ProptestConfig { cases: 300, ..default }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_program_of_one_thread(policy in policy(), steps in prop::collection::vec(step(), 1..80)) {
        let gpu = Arc::new(VirtualDevice::with_capacity(256 * MIB));
        let pool = MemoryPool::new(&policy, vec![gpu.clone()]).unwrap();
        pool.record_memory_history(&recording_stacks()).unwrap();
        let private = pool.private_pool();
        let mut live: Vec<Live> = Vec::new();
        // A naive count: the highest sums after each step, since the last reset of peaks.
        let (mut peak_allocated, mut peak_requested, mut pending, mut was_reset) = (0, 0, false, false);
        let mut scopes = Vec::new();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Malloc { stream, size } => live.extend(malloc(&pool, stream, size)),
                Step::MallocPrivate { size } => {
                    if let Ok(allocation) = private.malloc_on(0, size) {
                        live.push(Live { allocation, requested: size });
                    }
                }
                Step::Free(n) if !live.is_empty() => drop(live.swap_remove(n % live.len())),
                Step::RecordStream(n, stream) if !live.is_empty() => {
                    live[n % live.len()].allocation.record_stream(stream).unwrap();
                    pending = true;
                }
                Step::SetBusy(stream, busy) => gpu.set_busy(stream, busy),
                Step::FreeAllBlocks => {
                    let (before, releasable) = (pool.total_bytes(), pool.releasable_bytes());
                    pool.free_all_blocks().unwrap();
                    let given = before - pool.total_bytes();
                    // The pool also waits for blocks that streams still use.
                    prop_assert!(given == releasable || pending && given > releasable);
                }
                Step::ResetPeaks => {
                    pool.reset_peak_stats();
                    (peak_allocated, peak_requested, was_reset) = (0, 0, true);
                }
                Step::OpenScope => scopes.push((pool.peak_scope(), 0)),
                _ => {}
            }
            peak_allocated = peak_allocated.max(live.iter().map(|l| l.allocation.size()).sum::<u64>());
            peak_requested = peak_requested.max(live.iter().map(|l| l.requested).sum::<u64>());
            let s = pool.statistics();
            prop_assert_eq!(s.allocated.peak, peak_allocated, "after step {}", i);
            if !pending {
                prop_assert_eq!(s.requested.peak, peak_requested);
            }
            for (_, peak) in &mut scopes {
                *peak = s.allocated.current.max(*peak);
            }
        }
        for (scope, peak) in &scopes {
            prop_assert_eq!(scope.peaks().allocated, *peak);
        }
        let trace = pool.snapshot().unwrap();
        let (device, s) = (&trace.devices[0], pool.statistics());
        check_layout(device, &live, pending);
        check_current(device, &live, &s);
        let [requested, reserved] = recount(device);
        if !was_reset {
            prop_assert_eq!([(s.requested.peak, s.requested.allocated), (s.reserved.peak, s.reserved.allocated)], [requested, reserved]);
            prop_assert_eq!(analysed_peaks(&trace), (s.allocated.peak, s.active.peak));
        }
        if is_told(&policy, &s) {
            check_replay(&trace, &s, was_reset);
        }
        // Everything is released.
        for stream in 0..3 {
            gpu.set_busy(stream, false);
        }
        live.clear();
        drop((private, scopes));
        pool.free_all_blocks().unwrap();
        prop_assert_eq!(pool.total_bytes(), 0);
        prop_assert_eq!(vramscope_allocator::Device::memory_info(&*gpu).unwrap().used(), 0);
    }

    /// The state at the start of recording is rebuilt from the end. The age of old segments and the addresses of reserved ranges are not
    /// recorded.
    #[test]
    fn a_recording_that_begins_late(
        conf in prop::sample::select(vec!["", "max_split_size_mb:21", "roundup_power2_divisions:4"]),
        before in prop::collection::vec(step(), 1..60),
        after in prop::collection::vec(step(), 1..60),
    ) {
        let gpu = Arc::new(VirtualDevice::with_capacity(256 * MIB));
        let pool = MemoryPool::new(&torch(conf, TorchRelease::new(2, 11)), vec![gpu]).unwrap();
        let mut live: Vec<Live> = Vec::new();
        let mut run = |steps: Vec<Step>| {
            for step in steps {
                match step {
                    Step::Malloc { stream, size } => live.extend(malloc(&pool, stream, size)),
                    Step::Free(n) if !live.is_empty() => drop(live.swap_remove(n % live.len())),
                    Step::FreeAllBlocks => pool.free_all_blocks().unwrap(),
                    _ => {}
                }
            }
        };
        run(before);
        pool.record_memory_history(&recording_stacks()).unwrap();
        let start = pool.statistics();
        pool.reset_peak_stats();
        run(after);
        let (trace, s) = (pool.snapshot().unwrap(), pool.statistics());
        let history = History::of(&trace, 0);
        let replay = Replay::of(&history).unwrap();
        let replayed = replay.reproduction.outcome.statistics;
        // Large blocks that were freed in the meantime may have been larger than requested.
        if history.quality.inferred.inferred_sizes == 0 {
            prop_assert_eq!(replay.reproduction.first_difference, None);
            prop_assert_eq!(replayed.allocated.peak, s.allocated.peak);
            prop_assert_eq!(replayed.reserved.peak, s.reserved.peak);
            prop_assert_eq!(replayed.reserved.current, s.reserved.current);
            prop_assert_eq!(replayed.segments_allocated + start.segments_allocated, s.segments_allocated);
        }
    }

    #[test]
    fn programs_of_several_threads(
        policy in policy(),
        programs in prop::collection::vec(prop::collection::vec(step(), 1..60), 2..4),
    ) {
        let gpu = Arc::new(VirtualDevice::with_capacity(1024 * MIB));
        let pool = MemoryPool::new(&policy, vec![gpu.clone()]).unwrap();
        pool.record_memory_history(&recording()).unwrap();
        let scope = pool.peak_scope();
        // Threads free each other's allocations, which they exchange here.
        let shared: std::sync::Mutex<Vec<Live>> = std::sync::Mutex::default();
        std::thread::scope(|threads| {
            for steps in &programs {
                let (pool, shared, gpu) = (&pool, &shared, &gpu);
                threads.spawn(move || {
                    for step in steps {
                        match *step {
                            Step::Malloc { stream, size } => {
                                let block = malloc(pool, stream, size);
                                shared.lock().unwrap().extend(block);
                            }
                            Step::Free(n) => {
                                let mut shared = shared.lock().unwrap();
                                let len = shared.len();
                                let block = (len > 0).then(|| shared.swap_remove(n % len));
                                drop(shared);
                                drop(block);
                            }
                            Step::RecordStream(n, stream) => {
                                let shared = shared.lock().unwrap();
                                if let Some(l) = shared.get(n % shared.len().max(1)) {
                                    l.allocation.record_stream(stream).unwrap();
                                }
                            }
                            Step::FreeAllBlocks => pool.free_all_blocks().unwrap(),
                            Step::MallocPrivate { size } => {
                                let block = pool.private_pool().malloc_on(1, size).ok();
                                let block = block.map(|allocation| Live { allocation, requested: size });
                                shared.lock().unwrap().extend(block);
                            }
                            Step::SetBusy(stream, busy) => gpu.set_busy(stream, busy),
                            // Inspect the pool while the others work.
                            Step::ResetPeaks => {
                                let s = pool.statistics();
                                assert!(s.allocated.peak >= s.allocated.current);
                            }
                            Step::OpenScope => {
                                let trace = pool.snapshot().unwrap();
                                check_layout(&trace.devices[0], &[], true);
                            }
                        }
                    }
                });
            }
        });
        let live = shared.into_inner().unwrap();
        let trace = pool.snapshot().unwrap();
        let (device, s) = (&trace.devices[0], pool.statistics());
        check_layout(device, &live, true);
        check_current(device, &live, &s);
        let [requested, reserved] = recount(device);
        prop_assert_eq!([(s.requested.peak, s.requested.allocated), (s.reserved.peak, s.reserved.allocated)], [requested, reserved]);
        prop_assert_eq!(scope.peaks().requested, requested.0);
        prop_assert_eq!(analysed_peaks(&trace), (s.allocated.peak, s.active.peak));
        drop((live, scope));
        for stream in 0..3 {
            gpu.set_busy(stream, false);
        }
        pool.free_all_blocks().unwrap();
        prop_assert_eq!((pool.used_bytes(), pool.total_bytes()), (0, 0));
    }
}
