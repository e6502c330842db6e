//! Devices of which one call fails, for each call of a program: no memory is lost, and none is in use twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use vramscope_allocator::{
    AllocError, Allocation, Device, DeviceError, EventId, MemoryInfo, MemoryPool, TorchRelease,
    VirtualDevice, VirtualMemory,
};
use vramscope_engine::{Plan, PlannedRequest};
use vramscope_trace::PoolId;

use crate::{MIB, torch};

/// The error of the call that fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    OutOfMemory,
    Other,
}

/// A device of which one call fails.
struct Failing {
    memory: VirtualDevice,
    calls: AtomicU64,
    /// The index of the call that fails.
    fails: u64,
    kind: Kind,
    /// Bytes at each address, mapped or allocated. A second release of memory, or one of unknown memory, panics.
    held: Mutex<BTreeMap<u64, u64>>,
}

impl Failing {
    fn new(mib: u64, fails: u64, kind: Kind) -> Arc<Self> {
        let memory = VirtualDevice::with_capacity(mib * MIB);
        Arc::new(Self { memory, calls: AtomicU64::new(0), fails, kind, held: Mutex::default() })
    }

    /// Counts a call.
    fn call(&self, size: u64) -> Result<(), DeviceError> {
        if self.calls.fetch_add(1, Ordering::Relaxed) != self.fails {
            return Ok(());
        }
        Err(match self.kind {
            Kind::OutOfMemory => DeviceError::OutOfMemory { size },
            Kind::Other => DeviceError::Unsupported("this call fails".to_owned()),
        })
    }

    fn hold(&self, address: u64, size: u64, page: u64) {
        let mut held = self.held.lock().unwrap();
        for at in (address..address + size).step_by(page as usize) {
            assert_eq!(held.insert(at, page.min(size)), None, "memory at {at:#x} was handed out twice");
        }
    }

    fn release_held(&self, address: u64, size: u64, page: u64) {
        let mut held = self.held.lock().unwrap();
        for at in (address..address + size).step_by(page as usize) {
            assert_eq!(held.remove(&at), Some(page.min(size)), "no memory at {at:#x}");
        }
    }

    fn held_bytes(&self) -> u64 {
        self.held.lock().unwrap().values().sum()
    }
}

impl Device for Failing {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        self.call(size)?;
        let address = self.memory.allocate(size)?;
        self.hold(address, size, size);
        Ok(address)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.call(size)?;
        self.release_held(address, size, size);
        self.memory.free(address, size)
    }

    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.memory.memory_info()
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        self.memory.synchronize_device()
    }

    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        self.call(0)?;
        self.memory.record_event(stream)
    }

    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        self.memory.event_done(event)
    }

    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        self.memory.synchronize(event)
    }
}

impl VirtualMemory for Failing {
    fn reserve(&self, size: u64) -> Result<u64, DeviceError> {
        self.call(size)?;
        self.memory.virtual_memory().unwrap().reserve(size)
    }

    fn release(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        VirtualMemory::release(self.memory.virtual_memory().unwrap(), address, size)
    }

    fn map(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError> {
        self.call(size)?;
        self.memory.virtual_memory().unwrap().map(address, size, page)?;
        self.hold(address, size, page);
        Ok(())
    }

    fn unmap(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError> {
        self.call(size)?;
        self.release_held(address, size, page);
        self.memory.virtual_memory().unwrap().unmap(address, size, page)
    }
}

/// The blocks of a program, which may not overlap.
#[derive(Default)]
struct Blocks(Mutex<BTreeMap<u64, Allocation>>);

impl Blocks {
    /// Keeps a block. Returns its address.
    fn keep(&self, block: Allocation) -> u64 {
        let (start, end) = (block.address(), block.address() + block.size());
        let mut live = self.0.lock().unwrap();
        if let Some((&other, before)) = live.range(..end).next_back() {
            assert!(other + before.size() <= start, "{start:#x} overlaps {other:#x}");
        }
        live.insert(start, block);
        start
    }

    fn remove(&self, address: u64) -> Option<Allocation> {
        self.0.lock().unwrap().remove(&address)
    }
}

/// A number from 0 to `below`, exclusive.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// A plan of a step with blocks of 1 to 8 MiB in a row, on two streams.
fn plan() -> Arc<Plan> {
    let mut at = [0, 0];
    let mut step = Vec::new();
    for (mib, stream) in [(4, 0), (1, 0), (8, 0), (2, 1), (6, 0), (3, 1)] {
        let offset = Some(at[stream as usize] * MIB);
        at[stream as usize] += mib;
        step.push(PlannedRequest { size: mib * MIB, stream, offset });
    }
    let segments = at.map(|mib: u64| mib.next_multiple_of(2) * MIB).to_vec();
    Arc::new(Plan::new(segments, Vec::new(), step).unwrap())
}

/// Runs steps that follow the plan, other requests, frees by another stream, a capture, and releases of the cache. Then frees everything.
fn run(pool: &MemoryPool, steps: u64, seed: u64) {
    let device = &pool.devices()[0];
    let blocks = Blocks::default();
    let mut chance = seed;
    let mut live = Vec::new();
    let ask = |from: PoolId, stream: u64, size: u64, live: &mut Vec<u64>| {
        if let Ok(block) = device.malloc_from(from, stream, size) {
            live.push(blocks.keep(block));
        }
    };
    for step in 0..steps {
        for (mib, stream) in [(4, 0), (1, 0), (8, 0), (2, 7), (6, 0), (3, 7)] {
            ask(PoolId::default(), stream, mib * MIB, &mut live);
            if random(&mut chance, 4) == 0 {
                ask(PoolId::default(), stream, 1 + random(&mut chance, 3 * MIB), &mut live);
            }
        }
        let id = PoolId(seed + 1, 0);
        device.open_pool(id);
        device.begin_capture();
        ask(id, 0, MIB + step, &mut live);
        device.end_capture();
        device.release_pool(id);
        while live.len() as u64 > random(&mut chance, 5) {
            let address = live.swap_remove(random(&mut chance, live.len() as u64) as usize);
            let block = blocks.remove(address).unwrap();
            if random(&mut chance, 3) == 0 {
                block.record_stream(9).ok();
            }
        }
        if step % 3 == 2 {
            device.free_all_blocks().ok();
        }
    }
}

/// Everything went back to the device.
fn nothing_is_left(pool: &MemoryPool, device: &Failing, what: &str) {
    // The first call may be the one that fails.
    pool.free_all_blocks().ok();
    pool.free_all_blocks().unwrap();
    let statistics = pool.statistics();
    let bytes = [statistics.allocated, statistics.active, statistics.reserved].map(|stat| stat.current);
    assert_eq!((bytes, device.held_bytes()), ([0; 3], 0), "{what}");
}

fn pool_on(device: &Arc<Failing>, conf: &str, plan: Option<Arc<Plan>>) -> MemoryPool {
    let policy = torch(conf, TorchRelease::new(2, 11));
    let pool = MemoryPool::new(&policy, vec![Arc::clone(device) as Arc<dyn Device>]).unwrap();
    if let Some(plan) = plan {
        assert!(pool.follow_plan(plan));
    }
    pool
}

#[test]
fn after_any_call_of_the_device_failed_no_memory_is_lost_or_in_use_twice() {
    for conf in ["", "expandable_segments:True"] {
        for plan in [None, Some(plan())] {
            // 48 MiB are too few for some of the requests.
            for (mib, kind) in [(200, Kind::OutOfMemory), (200, Kind::Other), (48, Kind::OutOfMemory)] {
                let mut fails = 0;
                loop {
                    let device = Failing::new(mib, fails, kind);
                    let pool = pool_on(&device, conf, plan.clone());
                    run(&pool, 6, 1);
                    let what = format!("{conf} plan {} {kind:?} call {fails}", plan.is_some());
                    nothing_is_left(&pool, &device, &what);
                    if device.calls.load(Ordering::Relaxed) <= fails {
                        assert!(fails > 20, "{what}");
                        break;
                    }
                    fails += 1;
                }
            }
        }
    }
}

/// One failed call of a device that has room: the pool releases its cache and tries again.
#[test]
fn one_failed_allocation_fails_no_request() {
    for plan in [None, Some(plan())] {
        let requests = |fails| {
            let device = Failing::new(400, fails, Kind::OutOfMemory);
            let pool = pool_on(&device, "", plan.clone());
            // A cached segment, which can be released.
            drop(pool.malloc(30 * MIB).unwrap());
            let step = [4, 1, 8].map(|mib| pool.malloc(mib * MIB));
            assert!(step.iter().all(Result::is_ok), "call {fails}: {:?}", step.map(|block| block.err()));
            device.calls.load(Ordering::Relaxed)
        };
        let calls = requests(u64::MAX);
        // The first call is that of the cached segment.
        (1..=calls).for_each(|fails| _ = requests(fails));
    }
}

#[test]
fn sixteen_threads_lose_no_memory_when_the_device_fails() {
    for (fails, plan) in [(5, None), (25, Some(plan())), (60, Some(plan())), (u64::MAX, Some(plan()))] {
        let device = Failing::new(160, fails, Kind::OutOfMemory);
        let pool = pool_on(&device, "expandable_segments:True", plan);
        let all = Barrier::new(16);
        std::thread::scope(|scope| {
            for seed in 0..16 {
                let (pool, all) = (&pool, &all);
                scope.spawn(move || {
                    all.wait();
                    run(pool, 12, seed);
                });
            }
        });
        nothing_is_left(&pool, &device, &format!("16 threads, call {fails}"));
    }
}

/// The device is full in the middle of a step, and again when the step repeats.
#[test]
fn out_of_memory_in_the_middle_of_a_plan_ends_the_request_alone() {
    let device = Failing::new(20, u64::MAX, Kind::OutOfMemory);
    let pool = pool_on(&device, "", Some(plan()));
    let blocks = Blocks::default();
    for _ in 0..3 {
        let mut live = Vec::new();
        let mut failed = 0;
        for mib in [4, 1, 8] {
            live.push(blocks.keep(pool.malloc(mib * MIB).unwrap()));
        }
        for (mib, stream) in [(2, 7), (6, 0), (3, 7)] {
            match pool.malloc_on(stream, mib * MIB) {
                Ok(block) => live.push(blocks.keep(block)),
                Err(AllocError::OutOfMemory(_)) => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(failed > 0);
        live.into_iter().for_each(|address| drop(blocks.remove(address)));
    }
    let served = pool.plan_use().unwrap();
    assert!(served.planned.requests >= 12, "{served:?}");
    nothing_is_left(&pool, &device, "a full device");
}

/// A capture that ends early, and blocks that outlive it and the pool's own handle.
#[test]
fn a_failed_capture_and_live_blocks_at_the_end_lose_no_memory() {
    let device = Failing::new(64, u64::MAX, Kind::OutOfMemory);
    let pool = pool_on(&device, "", Some(plan()));
    let inner = &pool.devices()[0];
    let kept = pool.malloc(4 * MIB).unwrap();
    inner.open_pool(PoolId(1, 0));
    inner.begin_capture();
    let captured = inner.malloc_from(PoolId(1, 0), 0, MIB).unwrap();
    captured.record_stream(9).unwrap();
    assert!(inner.malloc_from(PoolId(1, 0), 0, 500 * MIB).is_err());
    drop(captured);
    inner.end_capture();
    inner.release_pool(PoolId(1, 0));
    pool.free_all_blocks().unwrap();
    assert_eq!(device.held_bytes(), 4 * MIB);
    drop(pool);
    assert_eq!(device.held_bytes(), 4 * MIB, "a block in use outlives the pool");
    drop(kept);
    assert_eq!(device.held_bytes(), 0);
}
