//! The recorded history: every option, snapshots that other tools open, and recordings of killed programs.

use std::sync::{Arc, Mutex};

use vramscope_allocator::{
    Context, Device, Enabled, HistoryOptions, MemoryPool, Policy, SourceFrame, StackSource, Stacks,
    UserMetadata, VirtualDevice, set_user_metadata,
};
use vramscope_trace::{Action, BlockState, SegmentKind, Stage, Trace, formats};

use crate::{MIB, torch_2_11};

fn pool() -> MemoryPool {
    MemoryPool::new(&torch_2_11(), vec![Arc::new(VirtualDevice::with_capacity(1 << 30))]).unwrap()
}

fn record(pool: &MemoryPool, options: HistoryOptions) {
    pool.record_memory_history(&options).unwrap();
}

/// Actions of the first device, in order.
fn actions(trace: &Trace) -> Vec<Action> {
    trace.devices[0].events.iter().map(|e| e.action).collect()
}

fn stack_of(trace: &Trace, action: Action) -> Option<String> {
    let event = trace.devices[0].events.iter().find(|e| e.action == action).unwrap();
    let frames = trace.stacks.get(event.stack?).iter().map(|&f| trace.frames.get(f));
    Some(frames.map(|f| trace.strings.get(f.name).to_owned()).collect::<Vec<_>>().join(" < "))
}

#[inline(never)]
fn allocate_here(pool: &MemoryPool) -> vramscope_allocator::Allocation {
    pool.malloc(1000).unwrap()
}

#[inline(never)]
fn free_here(allocation: vramscope_allocator::Allocation) {
    drop(allocation);
}

#[test]
fn a_pool_knows_whether_one_of_its_devices_records_history() {
    let device = || Arc::new(VirtualDevice::with_capacity(1 << 30)) as Arc<dyn Device>;
    let pool = MemoryPool::new(&torch_2_11(), vec![device(), device()]).unwrap();
    assert!(!pool.is_recording_history());
    for enabled in [Enabled::All, Enabled::State] {
        let second = HistoryOptions { device: Some(1), ..HistoryOptions::default() };
        record(&pool, HistoryOptions { enabled: Some(enabled), ..second.clone() });
        assert!(pool.is_recording_history(), "{enabled:?}");
        record(&pool, HistoryOptions { enabled: None, ..second });
        assert!(!pool.is_recording_history());
    }
}

/// PyTorch's order: segment_alloc before its alloc, free_completed right after free_requested.
#[test]
fn events_are_those_of_pytorch_in_its_order() {
    let pool = pool();
    record(&pool, HistoryOptions::default());
    free_here(allocate_here(&pool));
    pool.free_all_blocks().unwrap();
    pool.snapshot().unwrap();
    let trace = pool.snapshot().unwrap();
    use Action::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc, SegmentFree, Snapshot};
    assert_eq!(actions(&trace), [SegmentAlloc, Alloc, FreeRequested, FreeCompleted, SegmentFree, Snapshot]);
    let sizes: Vec<u64> = trace.devices[0].events.iter().map(|e| e.size).collect();
    assert_eq!(sizes, [2 * MIB, 1000, 1000, 1000, 2 * MIB, 0]);
}

#[test]
fn the_option_context_decides_which_events_have_stacks() {
    for (context, alloc, free) in [
        (None, None, None),
        (Some(Context::State), None, None),
        // A free shows where its block was allocated.
        (Some(Context::Alloc), Some("allocate_here"), Some("allocate_here")),
        (Some(Context::All), Some("allocate_here"), Some("free_here")),
    ] {
        let pool = pool();
        record(&pool, HistoryOptions { context, ..HistoryOptions::default() });
        let kept = allocate_here(&pool);
        free_here(allocate_here(&pool));
        let trace = pool.snapshot().unwrap();
        for (action, expected) in [(Action::Alloc, alloc), (Action::FreeRequested, free)] {
            let stack = stack_of(&trace, action);
            assert_eq!(stack.is_some(), expected.is_some(), "{context:?} {action:?}");
            if let (Some(stack), Some(function)) = (stack, expected) {
                assert!(stack.split(" < ").next().unwrap().contains(function), "{context:?}: {stack}");
            }
        }
        let block = trace.devices[0].blocks.iter().find(|b| b.state == BlockState::ActiveAllocated).unwrap();
        assert_eq!(block.stack.is_some(), context.is_some(), "{context:?}");
        drop(kept);
    }
}

#[test]
fn enabled_state_records_live_blocks_and_no_events() {
    let pool = pool();
    record(&pool, HistoryOptions { enabled: Some(Enabled::State), ..HistoryOptions::default() });
    let block = allocate_here(&pool);
    let trace = pool.snapshot().unwrap();
    assert_eq!(actions(&trace), [Action::Alloc]);
    assert!(trace.devices[0].blocks[0].stack.is_some());
    record(&pool, HistoryOptions { enabled: None, ..HistoryOptions::default() });
    drop(block);
    assert!(actions(&pool.snapshot().unwrap()).is_empty());
}

#[test]
fn a_full_ring_keeps_the_newest_events_and_reports_the_overflow() {
    let pool = pool();
    record(&pool, HistoryOptions { max_entries: 3, ..HistoryOptions::default() });
    drop(pool.malloc(1000).unwrap());
    let device = &pool.snapshot().unwrap().devices[0];
    assert_eq!((device.overflowed, device.max_entries), (Some(true), Some(3)));
    use Action::{Alloc, FreeCompleted, FreeRequested};
    assert_eq!(device.events.actions(), [Alloc, FreeRequested, FreeCompleted]);
    record(&pool, HistoryOptions { max_entries: 3, clear_history: true, ..HistoryOptions::default() });
    assert_eq!(pool.snapshot().unwrap().devices[0].overflowed, Some(false));
}

#[test]
fn one_device_can_be_recorded_alone() {
    let devices: Vec<Arc<dyn Device>> =
        (0..2).map(|_| Arc::new(VirtualDevice::with_capacity(1 << 30)) as Arc<dyn Device>).collect();
    let pool = MemoryPool::new(&torch_2_11(), devices).unwrap();
    record(&pool, HistoryOptions { device: Some(1), ..HistoryOptions::default() });
    for device in pool.devices() {
        drop(device.malloc(1).unwrap());
    }
    let trace = pool.snapshot().unwrap();
    let events: Vec<usize> = trace.devices.iter().map(|d| d.events.len()).collect();
    assert_eq!(events, [0, 4]);
    let none = pool.record_memory_history(&HistoryOptions { device: Some(2), ..HistoryOptions::default() });
    assert_eq!(none.unwrap_err().to_string(), "the pool has no device 2");
}

/// With `stacks="python"`, only the source's frames.
#[test]
fn a_source_supplies_frames() {
    struct Python;
    impl StackSource for Python {
        fn capture(&self, frames: &mut Vec<SourceFrame>) {
            frames.push(SourceFrame::new("train.py", 7, "step"));
            frames.push(SourceFrame::new("train.py", 20, "<module>"));
        }
    }
    for (stacks, whole) in [(Stacks::Python, true), (Stacks::All, false)] {
        let pool = pool();
        pool.set_stack_source(Some(Arc::new(Python)));
        record(&pool, HistoryOptions { stacks, ..HistoryOptions::default() });
        drop(allocate_here(&pool));
        let stack = stack_of(&pool.snapshot().unwrap(), Action::Alloc).unwrap();
        assert!(stack.starts_with("step < <module>"));
        assert_eq!(stack == "step < <module>", whole, "{stack}");
    }
}

#[test]
fn texts_and_regions_are_recorded() {
    let pool = pool();
    record(&pool, HistoryOptions::default());
    let region = pool.annotate("Optimizer.step");
    let text = UserMetadata::set("layer 3");
    let block = pool.malloc(1).unwrap();
    drop(text);
    drop(block);
    drop(region);
    set_user_metadata(None);
    let trace = pool.snapshot().unwrap();
    let texts: Vec<Option<&str>> = trace.devices[0]
        .events
        .iter()
        .map(|e| trace.tags.get(e.tags).user_metadata.map(|text| trace.strings.get(text)))
        .collect();
    assert_eq!(texts, [Some("layer 3"), Some("layer 3"), Some(""), Some("")]);
    let regions = trace.annotations.as_ref().unwrap();
    let named: Vec<(Stage, &str)> = regions.iter().map(|a| (a.stage, trace.strings.get(a.name))).collect();
    assert_eq!(named, [(Stage::Start, "Optimizer.step"), (Stage::End, "Optimizer.step")]);
    assert!(regions[0].time_us <= regions[1].time_us);
}

/// `insert_events`: a block that another stream uses is pending until that stream is done.
#[test]
fn a_block_in_use_on_another_stream_waits() {
    let gpu = Arc::new(VirtualDevice::with_capacity(1 << 30));
    let pool = MemoryPool::new(&torch_2_11(), vec![gpu.clone()]).unwrap();
    record(&pool, HistoryOptions::default());
    gpu.set_busy(7, true);
    let block = pool.malloc(1000).unwrap();
    block.record_stream(7).unwrap();
    block.record_stream(0).unwrap();
    drop(block);
    let s = pool.statistics();
    assert_eq!((s.allocated.current, s.active.current, s.requested.current), (0, 1024, 1000));
    let other = pool.malloc(1000).unwrap();
    let trace = pool.snapshot().unwrap();
    let states: Vec<BlockState> = trace.devices[0].blocks.iter().map(|b| b.state).collect();
    use BlockState::{ActiveAllocated, ActivePendingFree, Inactive};
    assert_eq!(states, [ActivePendingFree, ActiveAllocated, Inactive]);
    gpu.set_busy(7, false);
    let third = pool.malloc(1000).unwrap();
    assert_eq!(pool.statistics().active.current, 2048);
    use Action::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc, Snapshot};
    assert_eq!(
        actions(&pool.snapshot().unwrap()),
        [SegmentAlloc, Alloc, FreeRequested, Alloc, Snapshot, FreeCompleted, Alloc]
    );
    drop((other, third));
}

#[test]
fn an_out_of_memory_is_recorded_and_its_observers_may_dump() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("oom.pickle");
    let pool =
        MemoryPool::new(&torch_2_11(), vec![Arc::new(VirtualDevice::with_capacity(64 * MIB))]).unwrap();
    record(&pool, HistoryOptions::default());
    let (seen, path) = (Arc::new(Mutex::new(Vec::new())), file.clone());
    let told = Arc::clone(&seen);
    pool.on_oom(Arc::new(move |pool, oom| {
        told.lock().unwrap().push((oom.requested, oom.size, oom.device_free));
        pool.dump_snapshot(&path).unwrap();
        pool.malloc(1 << 50).unwrap_err();
    }));
    let held = pool.malloc(40 * MIB).unwrap();
    pool.malloc(30 * MIB + 1).unwrap_err();
    drop(held);
    assert_eq!(*seen.lock().unwrap(), [(30 * MIB + 1, 30 * MIB + 512, Some(24 * MIB))]);
    let trace = formats::read(std::fs::File::open(&file).unwrap()).unwrap().trace;
    let events = &trace.devices[0].events;
    let oom = events.iter().find(|e| e.action == Action::Oom).unwrap();
    assert_eq!((oom.device_free(), oom.size), (Some(24 * MIB), 30 * MIB + 512));
    assert_eq!(trace.devices[0].blocks.iter().filter(|b| b.state.is_active()).count(), 1, "before unwinding");
    assert_eq!(
        (pool.statistics().num_ooms, seen.lock().unwrap().len()),
        (2, 1),
        "no observer runs for the observer's request"
    );
}

/// A program that uses every feature of a snapshot.
fn eventful(pool: &MemoryPool) -> Vec<vramscope_allocator::Allocation> {
    let _region = pool.annotate("train");
    let mut kept = Vec::new();
    for i in 1..200u64 {
        let block = pool.malloc_on(i % 3, i * i * 100).unwrap();
        if i % 7 == 0 {
            kept.push(block);
        }
    }
    let private = pool.private_pool();
    kept.push(private.malloc_on(0, 5000).unwrap());
    kept
}

fn configurations() -> [Policy; 3] {
    [
        Policy::cupy(),
        torch_2_11(),
        crate::torch("expandable_segments:True", vramscope_allocator::TorchRelease::new(2, 11)),
    ]
}

#[test]
fn a_dump_reads_back_as_the_snapshot() {
    for policy in configurations() {
        let gpu = Arc::new(VirtualDevice::with_capacity(1 << 30));
        let pool = MemoryPool::new(&policy, vec![gpu]).unwrap();
        record(&pool, HistoryOptions::default());
        let kept = eventful(&pool);
        let trace = pool.snapshot().unwrap();
        let mut pickle = Vec::new();
        formats::write_pickle(&trace, &mut pickle).unwrap();
        let read = formats::read(&pickle[..]).unwrap();
        assert_eq!(read.trace, trace);
        assert_eq!(read.notices, vramscope_trace::Notices::default());
        drop(kept);
    }
}

/// The state at the end of a stream equals the pool's state.
#[test]
fn a_streamed_recording_ends_as_the_pool_does() {
    for policy in configurations() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.vramscope");
        let gpu = Arc::new(VirtualDevice::with_capacity(1 << 30));
        let pool = MemoryPool::new(&policy, vec![gpu.clone()]).unwrap();
        let before = eventful(&pool);
        let options =
            HistoryOptions { stream_to: Some(file.clone()), max_entries: 10, ..HistoryOptions::default() };
        record(&pool, options);
        let kept = eventful(&pool);
        drop(before);
        pool.free_all_blocks().unwrap();
        let held = pool.snapshot().unwrap();
        record(&pool, HistoryOptions { enabled: None, ..HistoryOptions::default() });
        let read = formats::read(std::fs::File::open(&file).unwrap()).unwrap();
        let streamed = &read.trace.devices[0];
        assert!(streamed.events.len() > 400, "a stream has no limit: {}", streamed.events.len());
        let layout = |d: &vramscope_trace::DeviceTrace| -> Vec<_> {
            let segments =
                d.segments.iter().map(|s| (s.address, s.total_size, s.stream, s.pool, s.active_size));
            let blocks = d.blocks.iter().map(|b| (b.address, b.size, b.state));
            segments.zip(std::iter::repeat(blocks.collect::<Vec<_>>())).collect()
        };
        assert_eq!(layout(streamed), layout(&held.devices[0]));
        assert_eq!(streamed.segments[0].kind == SegmentKind::Large, policy.release().is_none());
        let stack = stack_of(&read.trace, Action::Alloc).unwrap();
        assert!(stack.split(" < ").next().unwrap().contains("eventful"), "{stack}");
        drop(kept);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let pool = pool();
    let nowhere = std::path::PathBuf::from("/nowhere/run.pickle");
    let error = pool.dump_snapshot(&nowhere).unwrap_err().to_string();
    assert_eq!(error, "/nowhere/run.pickle: No such file or directory (os error 2)");
    let options = HistoryOptions { stream_to: Some(nowhere), ..HistoryOptions::default() };
    assert!(pool.record_memory_history(&options).is_err());
    drop(pool.malloc(1).unwrap());
    assert!(actions(&pool.snapshot().unwrap()).is_empty(), "no recording started");
}

/// Memory outlives the pool, and is released with its last user.
#[test]
fn allocations_outlive_the_pool() {
    let gpu = Arc::new(VirtualDevice::with_capacity(1 << 30));
    let pool = MemoryPool::new(&torch_2_11(), vec![gpu.clone()]).unwrap();
    let [a, b] = [(); 2].map(|()| pool.malloc(30 * MIB).unwrap());
    drop(pool.malloc(1000).unwrap());
    let used = || gpu.memory_info().unwrap().used() / MIB;
    assert_eq!(used(), 62);
    drop(pool);
    assert_eq!(used(), 60, "the cache was released");
    drop(a);
    drop(b);
    assert_eq!(used(), 0);
}

fn read(file: &std::path::Path) -> formats::Recording {
    formats::read(std::fs::File::open(file).unwrap()).unwrap()
}

/// Dropping the pool completes the file.
#[test]
fn a_stream_is_completed_when_its_pool_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.vramscope");
    let pool = pool();
    record(&pool, HistoryOptions { stream_to: Some(file.clone()), ..HistoryOptions::default() });
    drop(pool.malloc(1000).unwrap());
    drop(pool);
    let recording = read(&file);
    assert!(!recording.notices.unclosed);
    use Action::{Alloc, FreeCompleted, FreeRequested, SegmentAlloc, SegmentFree};
    assert_eq!(actions(&recording.trace), [SegmentAlloc, Alloc, FreeRequested, FreeCompleted, SegmentFree]);
}

#[test]
fn a_file_is_not_streamed_to_twice() {
    let folder = tempfile::tempdir().unwrap();
    let options = HistoryOptions { stream_to: Some(folder.path().join("a")), ..HistoryOptions::default() };
    let pool = pool();
    record(&pool, options.clone());
    drop(pool.malloc(1).unwrap());
    let again = pool.record_memory_history(&options).unwrap_err().to_string();
    assert!(again.ends_with("a: another recording writes to this file; choose another name"), "{again}");
    drop(pool);
    assert_eq!(read(&folder.path().join("a")).trace.devices[0].events.len(), 5);
}

/// Ending the recording of one device leaves the file open for the others.
#[test]
fn ending_the_recording_of_one_device_leaves_the_other_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.vramscope");
    let devices: Vec<Arc<dyn Device>> =
        (0..2).map(|_| Arc::new(VirtualDevice::with_capacity(1 << 30)) as Arc<dyn Device>).collect();
    let pool = MemoryPool::new(&torch_2_11(), devices).unwrap();
    record(&pool, HistoryOptions { stream_to: Some(file.clone()), ..HistoryOptions::default() });
    record(&pool, HistoryOptions { enabled: None, device: Some(1), ..HistoryOptions::default() });
    let region = pool.annotate("later");
    for device in pool.devices() {
        drop(device.malloc(1).unwrap());
    }
    drop(region);
    assert_eq!(pool.stream_error(), None);
    drop(pool);
    let trace = read(&file).trace;
    let events: Vec<usize> = trace.devices.iter().map(|d| d.events.len()).collect();
    assert_eq!(events, [5, 0]);
    assert_eq!(trace.annotations.as_ref().unwrap().len(), 2);
}

#[test]
fn actions_can_be_left_out() {
    let pool = pool();
    let skip_actions = vec![Action::SegmentAlloc, Action::FreeRequested];
    record(&pool, HistoryOptions { skip_actions, ..HistoryOptions::default() });
    drop(pool.malloc(1).unwrap());
    assert_eq!(actions(&pool.snapshot().unwrap()), [Action::Alloc, Action::FreeCompleted]);
}

#[test]
fn a_source_that_panics_loses_no_memory() {
    struct Panics;
    impl StackSource for Panics {
        fn capture(&self, frames: &mut Vec<SourceFrame>) {
            frames.push(SourceFrame::new("a.py", 1, "f"));
            panic!("on purpose");
        }
    }
    let pool = pool();
    pool.set_stack_source(Some(Arc::new(Panics)));
    record(&pool, HistoryOptions { stacks: Stacks::Python, ..HistoryOptions::default() });
    drop(pool.malloc(1000).unwrap());
    assert_eq!(pool.used_bytes(), 0);
    assert_eq!(stack_of(&pool.snapshot().unwrap(), Action::Alloc).unwrap(), "f");
}

/// A device that panics during a free.
#[test]
fn a_device_that_panics_in_a_free_loses_no_memory() {
    struct Panics(VirtualDevice);
    impl Device for Panics {
        fn allocate(&self, size: u64) -> Result<u64, vramscope_allocator::DeviceError> {
            self.0.allocate(size)
        }
        fn free(&self, address: u64, size: u64) -> Result<(), vramscope_allocator::DeviceError> {
            self.0.free(address, size)
        }
        fn memory_info(&self) -> Result<vramscope_allocator::MemoryInfo, vramscope_allocator::DeviceError> {
            self.0.memory_info()
        }
        fn knows_stream(&self, stream: u64) -> bool {
            stream != 99
        }
        fn synchronize_device(&self) -> Result<(), vramscope_allocator::DeviceError> {
            panic!("on purpose");
        }
        fn record_event(
            &self,
            stream: u64,
        ) -> Result<vramscope_allocator::EventId, vramscope_allocator::DeviceError> {
            assert!(stream != 7, "on purpose");
            self.0.record_event(stream)
        }
        fn event_done(
            &self,
            _: vramscope_allocator::EventId,
        ) -> Result<bool, vramscope_allocator::DeviceError> {
            panic!("on purpose");
        }
        fn synchronize(
            &self,
            _: vramscope_allocator::EventId,
        ) -> Result<(), vramscope_allocator::DeviceError> {
            panic!("on purpose");
        }
    }
    let gpu = Arc::new(Panics(VirtualDevice::with_capacity(1 << 30)));
    let pool = MemoryPool::new(&Policy::cupy(), vec![gpu.clone()]).unwrap();
    let block = pool.malloc(1000).unwrap();
    block.record_stream(7).unwrap();
    block.record_stream(8).unwrap();
    assert_eq!(
        block.record_stream(99).unwrap_err().to_string(),
        "stream 0x63 does not belong to this device; register it with the device first"
    );
    drop(block);
    drop(pool.malloc(1).unwrap());
    pool.free_all_blocks().unwrap();
    assert_eq!((pool.statistics().active.current, pool.total_bytes()), (0, 0));
}

/// When the pool is dropped, blocks that still wait for a stream are waited for.
#[test]
fn a_block_that_waits_goes_back_after_the_pool_is_gone() {
    let gpu = Arc::new(VirtualDevice::with_capacity(1 << 30));
    let pool = MemoryPool::new(&torch_2_11(), vec![gpu.clone()]).unwrap();
    gpu.set_busy(1, true);
    let [now, later] = [(); 2].map(|()| pool.malloc(30 * MIB).unwrap());
    now.record_stream(1).unwrap();
    later.record_stream(1).unwrap();
    drop(now);
    drop(pool);
    drop(later);
    assert_eq!(gpu.memory_info().unwrap().used(), 0);
}
