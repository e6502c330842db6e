//! Blocks that other streams still use, on a device whose kernels end when the test ends them or the pool waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use vramscope_allocator::{
    Device, DeviceError, EventId, MemoryInfo, MemoryPool, Policy, TorchRelease, VirtualDevice,
};

use crate::{MIB, torch};

/// Kernels of each stream: the numbers of started and of ended kernels.
#[derive(Default)]
struct Streams {
    started: BTreeMap<u64, u64>,
    ended: BTreeMap<u64, u64>,
    /// Marks: the stream, and the number of kernels before the mark.
    marks: Vec<(u64, u64)>,
    /// The device calls that relate to waiting, in order.
    calls: Vec<String>,
}

impl Streams {
    fn is_reached(&self, mark: EventId) -> bool {
        let (stream, before) = self.marks[mark.0 as usize];
        self.ended.get(&stream).copied().unwrap_or(0) >= before
    }

    fn is_busy(&self) -> bool {
        self.started.iter().any(|(stream, started)| self.ended.get(stream).copied().unwrap_or(0) < *started)
    }
}

struct Busy {
    memory: VirtualDevice,
    streams: Mutex<Streams>,
}

impl Busy {
    fn new() -> Arc<Self> {
        Arc::new(Self { memory: VirtualDevice::with_capacity(64 * MIB), streams: Mutex::default() })
    }

    /// Starts a kernel that runs until the test ends it.
    fn start(&self, stream: u64) {
        *self.streams.lock().unwrap().started.entry(stream).or_default() += 1;
    }

    /// Ends the oldest running kernel of a stream.
    fn end(&self, stream: u64) {
        *self.streams.lock().unwrap().ended.entry(stream).or_default() += 1;
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.streams.lock().unwrap().calls)
    }
}

impl Device for Busy {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        self.memory.allocate(size)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let mut streams = self.streams.lock().unwrap();
        let word = if streams.is_busy() { "free under way" } else { "free" };
        streams.calls.push(word.to_owned());
        self.memory.free(address, size)
    }

    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.memory.memory_info()
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        let mut streams = self.streams.lock().unwrap();
        streams.ended = streams.started.clone();
        streams.calls.push("synchronize_device".to_owned());
        Ok(())
    }

    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        let mut streams = self.streams.lock().unwrap();
        let before = streams.started.get(&stream).copied().unwrap_or(0);
        streams.marks.push((stream, before));
        streams.calls.push(format!("record_event {stream}"));
        Ok(EventId(streams.marks.len() as u64 - 1))
    }

    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        Ok(self.streams.lock().unwrap().is_reached(event))
    }

    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        let mut streams = self.streams.lock().unwrap();
        let (stream, before) = streams.marks[event.0 as usize];
        let ended = streams.ended.entry(stream).or_default();
        *ended = before.max(*ended);
        streams.calls.push(format!("synchronize {stream}"));
        Ok(())
    }
}

fn pool_on(device: &Arc<Busy>) -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::clone(device) as Arc<dyn Device>]).unwrap()
}

/// `insert_events`, `process_events` of PyTorch: a freed block is not reused while another stream's kernel may use it.
#[test]
fn a_block_is_not_handed_out_while_another_stream_is_at_work_on_it() {
    let device = Busy::new();
    let pool = pool_on(&device);
    let block = pool.malloc(MIB).unwrap();
    let address = block.address();
    block.record_stream(7).unwrap();
    device.start(7);
    device.start(7);
    drop(block);
    // A later kernel on the stream does not delay the block.
    device.start(7);
    assert_eq!(device.calls(), ["record_event 7"]);
    for ended in 0..2 {
        let other = pool.malloc(MIB).unwrap();
        assert_ne!(other.address(), address, "after {ended} of 2 kernels");
        let s = pool.statistics();
        assert_eq!((s.allocated.current, s.active.current), (MIB, 2 * MIB));
        drop(other);
        device.end(7);
    }
    let kept = [pool.malloc(MIB).unwrap(), pool.malloc(MIB).unwrap()];
    assert!(kept.iter().any(|block| block.address() == address));
    assert_eq!((pool.statistics().active.current, pool.total_bytes()), (2 * MIB, 2 * MIB));
    assert!(device.calls().is_empty(), "the pool polls instead of waiting");
}

/// `synchronize_and_free_events`: memory is released to the device after its last use.
#[test]
fn the_pool_waits_for_other_streams_before_it_releases_memory() {
    let device = Busy::new();
    let pool = pool_on(&device);
    let block = pool.malloc(MIB).unwrap();
    block.record_stream(7).unwrap();
    block.record_stream(8).unwrap();
    device.start(7);
    device.start(8);
    drop(block);
    pool.free_all_blocks().unwrap();
    let waited = ["record_event 7", "record_event 8", "synchronize 7", "synchronize 8", "free"];
    assert_eq!(device.calls(), waited);
    assert_eq!((pool.statistics().active.current, pool.total_bytes()), (0, 0));
}

/// Dropping the pool waits for streams, and so does dropping a block that outlives it.
#[test]
fn dropping_the_pool_waits_for_streams() {
    let device = Busy::new();
    let pool = pool_on(&device);
    let [early, late] = [pool.malloc(MIB).unwrap(), pool.malloc(MIB).unwrap()];
    early.record_stream(7).unwrap();
    late.record_stream(8).unwrap();
    device.start(7);
    drop(early);
    drop(pool);
    assert_eq!(device.calls(), ["record_event 7", "synchronize 7", "free"]);
    device.start(8);
    drop(late);
    assert_eq!(device.calls(), ["record_event 8", "synchronize 8", "free"]);
}

/// A block that waits for a stream is active but no longer allocated in `memory_summary`, as in PyTorch.
#[test]
fn blocks_that_wait_for_a_stream_are_active_in_the_summary() {
    let device = Busy::new();
    let gpus: Vec<Arc<dyn Device>> = vec![Arc::clone(&device) as _];
    let pool = MemoryPool::new(&torch("", TorchRelease::new(2, 11)), gpus).unwrap();
    let block = pool.malloc(1000).unwrap();
    block.record_stream(7).unwrap();
    device.start(7);
    drop(block);
    let summary = pool.memory_summary(true);
    for row in [
        "| Allocated memory      |      0 B   |   1024 B   |   1024 B   |   1024 B   |",
        "| Active memory         |   1024 B   |   1024 B   |   1024 B   |      0 B   |",
        "| Requested memory      |   1000 B   |   1000 B   |   1000 B   |      0 B   |",
        "| Allocations           |       0    |    n/a     |       1    |       1    |",
        "| Active allocs         |       1    |       1    |       1    |       0    |",
        "| Non-releasable allocs |       1    |    n/a     |    n/a     |    n/a     |",
    ] {
        assert!(summary.contains(row), "{row}\n{summary}");
    }
}

/// `needs_events_deferred_until_no_capture`: while a CUDA graph is captured, the device records, queries and awaits no event.
#[test]
fn a_capture_defers_the_events_of_freed_blocks() {
    let device = Busy::new();
    let pool = pool_on(&device);
    let block = pool.malloc(MIB).unwrap();
    let address = block.address();
    block.record_stream(7).unwrap();
    pool.begin_capture();
    pool.begin_capture();
    drop(block);
    // The device is full, but the request neither waits nor releases the cache.
    assert!(pool.malloc(64 * MIB).is_err());
    let other = pool.malloc(MIB).unwrap();
    assert_ne!(other.address(), address);
    pool.end_capture();
    assert!(device.calls().is_empty());
    pool.end_capture();
    assert_eq!(device.calls(), ["record_event 7"]);
    drop(other);
    let kept = [pool.malloc(MIB).unwrap(), pool.malloc(MIB).unwrap()];
    assert!(kept.iter().any(|block| block.address() == address));
}
