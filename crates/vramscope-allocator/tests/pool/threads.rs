//! `cudaStreamPerThread` is a different stream on every thread, so threads do not share memory freed on it (`_get_stream_identifier`,
//! `cupy/cuda/memory.pyx`; cupy/cupy#5069).

use std::sync::Arc;
use std::thread;

use vramscope_allocator::{Allocation, HistoryOptions, MemoryPool, Policy, VirtualDevice};
use vramscope_analysis::{DeviceReplay, Frames, History, ReplayOptions};
use vramscope_trace::formats;

use crate::{MIB, torch_2_11};

/// The handle `cudaStreamPerThread`.
const PER_THREAD: u64 = 2;

fn pool_and_gpu(policy: &Policy) -> (MemoryPool, Arc<VirtualDevice>) {
    let gpu = Arc::new(VirtualDevice::with_capacity(256 * MIB));
    (MemoryPool::new(policy, vec![gpu.clone()]).unwrap(), gpu)
}

fn there<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(f).join().unwrap())
}

fn take(pool: &MemoryPool) -> Allocation {
    pool.malloc_on(PER_THREAD, MIB).unwrap()
}

#[test]
fn memory_freed_on_a_per_thread_stream_does_not_serve_other_threads() {
    for policy in [Policy::cupy(), torch_2_11()] {
        let (pool, _) = pool_and_gpu(&policy);
        let freed = take(&pool).address();
        // This thread is alive, so the other thread has another stream.
        let other = there(|| take(&pool).address());
        assert_ne!(other, freed);
        assert_eq!(take(&pool).address(), freed);
        // Any other handle is the same stream on every thread.
        let freed = pool.malloc_on(7, MIB).unwrap().address();
        assert_eq!(there(|| pool.malloc_on(7, MIB).unwrap().address()), freed);
    }
}

#[test]
fn memory_freed_by_another_thread_returns_to_its_own_stream() {
    let (pool, _) = pool_and_gpu(&Policy::cupy());
    let mine = take(&pool);
    assert_eq!(mine.stream(), PER_THREAD, "the handle that was given");
    let address = mine.address();
    let theirs = there(|| {
        drop(mine);
        take(&pool).address()
    });
    assert_ne!(theirs, address);
    assert_eq!(take(&pool).address(), address);
    assert_eq!((pool.used_bytes(), pool.total_bytes()), (0, 2 * MIB));
}

#[test]
fn a_private_pool_and_giving_back_know_the_callers_stream() {
    let (pool, _) = pool_and_gpu(&Policy::cupy());
    let private = pool.private_pool();
    let freed = private.malloc_on(PER_THREAD, MIB).unwrap().address();
    assert_ne!(there(|| private.malloc_on(PER_THREAD, MIB).unwrap().address()), freed);
    assert_eq!(private.malloc_on(PER_THREAD, MIB).unwrap().address(), freed);
    drop(private);
    pool.free_all_blocks().unwrap();

    drop(take(&pool));
    there(|| {
        drop(take(&pool));
        assert_eq!(pool.total_bytes(), 2 * MIB);
        pool.free_all_blocks_of(PER_THREAD).unwrap();
    });
    assert_eq!(pool.total_bytes(), MIB, "this thread's cache stays");
}

/// Otherwise a program that keeps starting threads would reserve ever more memory.
#[test]
fn a_thread_that_ended_leaves_its_memory_to_a_later_one() {
    let (pool, gpu) = pool_and_gpu(&Policy::cupy());
    for round in 0..100 {
        there(|| {
            // The previous thread's work is done before its memory is reused: the pool waited for the device.
            let waiting = pool.malloc_on(0, 512).unwrap();
            gpu.set_busy(5, true);
            waiting.record_stream(5).unwrap();
            drop(waiting);
            assert_eq!(pool.statistics().active.current, 512);
            drop(take(&pool));
            let active = pool.statistics().active.current;
            // The virtual device finishes everything when waited for; the pool checks at the next request.
            drop(pool.malloc_on(0, 512).unwrap());
            assert!(active <= 512);
            if round > 0 {
                assert_eq!(pool.statistics().active.current, 0, "round {round}");
            }
            gpu.set_busy(5, false);
        });
    }
    // Other tests in this process may hold some numbers for a while.
    assert!(pool.total_bytes() <= 40 * MIB, "{}", pool.total_bytes());
}

/// Only the owning thread can mark its per-thread stream, so the pool waits for the device.
#[test]
fn a_use_on_another_threads_own_stream_is_waited_for() {
    let (pool, gpu) = pool_and_gpu(&Policy::cupy());
    gpu.set_busy(PER_THREAD, true);
    let block = take(&pool);
    // A block needs no mark for the stream it was allocated on.
    block.record_stream(PER_THREAD).unwrap();
    drop(block);
    assert_eq!(pool.statistics().active.current, 0);

    // Used by the thread that frees it: its stream is marked.
    let block = pool.malloc_on(0, MIB).unwrap();
    block.record_stream(PER_THREAD).unwrap();
    drop(block);
    assert_eq!(pool.statistics().active.current, MIB);
    gpu.set_busy(PER_THREAD, false);
    drop(pool.malloc_on(0, 512).unwrap());
    assert_eq!(pool.statistics().active.current, 0);

    // Used by another thread: a mark on this thread's stream would not cover that use.
    gpu.set_busy(PER_THREAD, true);
    gpu.set_busy(9, true);
    let waiting = pool.malloc_on(0, 512).unwrap();
    waiting.record_stream(9).unwrap();
    drop(waiting);
    let block = pool.malloc_on(0, MIB).unwrap();
    there(|| block.record_stream(PER_THREAD).unwrap());
    drop(block);
    assert_eq!(
        pool.statistics().active.current,
        512,
        "the block is free, because the pool waited for the device"
    );
    drop(pool.malloc_on(0, 512).unwrap());
    assert_eq!(pool.statistics().active.current, 0, "every other block is free too");
}

/// A recording distinguishes the threads' streams, by numbers that every JSON reader can represent.
#[test]
fn recordings_distinguish_the_per_thread_streams() {
    let (pool, _) = pool_and_gpu(&torch_2_11());
    pool.record_memory_history(&HistoryOptions::default()).unwrap();
    drop(take(&pool));
    there(|| drop(take(&pool)));
    let kept = take(&pool);
    let mut file = Vec::new();
    formats::write_pickle(&pool.snapshot().unwrap(), &mut file).unwrap();
    let trace = formats::read(&file[..]).unwrap().trace;
    let streams: Vec<u64> = trace.devices[0].segments.iter().map(|s| s.stream).collect();
    assert!(streams.len() == 2 && streams[0] != streams[1], "{streams:?}");
    assert!(streams.iter().all(|s| (1 << 52..1 << 53).contains(s)), "{streams:?}");
    let history = History::of(&trace, 0);
    assert_eq!(history.peaks().allocated.bytes, pool.statistics().allocated.peak);
    let frames = Frames::of(&trace);
    let replay = DeviceReplay::of(&trace, 0, &frames, &ReplayOptions::default(), &|| {}).unwrap();
    assert_eq!(replay.first_difference, None);
    drop(kept);
}
