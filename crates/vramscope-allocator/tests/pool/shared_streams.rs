//! Plans whose streams share memory, against a model of the order of work on streams: the model sees only the calls of the device and the
//! addresses of the blocks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use vramscope_allocator::{
    Allocation, Device, DeviceError, EventId, MemoryInfo, MemoryPool, Policy, VirtualDevice, VirtualMemory,
};
use vramscope_basics::lock;
use vramscope_engine::{Plan, PlannedRequest};

use crate::{MIB, torch_2_11};

const PAGE: u64 = 2 * MIB;

/// A device without memory, which keeps the order of the work on its streams.
struct OrderedDevice {
    memory: VirtualDevice,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Order {
    /// The stream and the time of each event. Times count calls.
    events: HashMap<EventId, (u64, u64)>,
    now: u64,
    /// Waits: the waiting stream, the other stream, and the time of the event.
    waits: Vec<(u64, u64, u64)>,
    /// Freed ranges: first address, address after the last, stream and time of the free.
    freed: Vec<(u64, u64, u64, u64)>,
    is_capturing: bool,
    /// A stream that is captured without the pool's knowledge.
    captured: Option<u64>,
    broken: Vec<&'static str>,
    refuses: bool,
    destroyed: usize,
}

impl Order {
    /// Records a broken rule: the pool turns panics of a device into errors.
    fn expect(&mut self, holds: bool, else_said: &'static str) {
        self.broken.extend((!holds).then_some(else_said));
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Checks that `stream` waits for each other stream that used a part of the block last.
    fn check(&mut self, start: u64, end: u64, stream: u64) -> Result<(), String> {
        for &(from, to, other, time) in self.freed.iter().filter(|&&(_, _, other, _)| other != stream) {
            let waits = self.waits.iter().any(|&(by, of, at)| by == stream && of == other && at > time);
            if from < end && start < to && !waits {
                return Err(format!("stream {stream} uses {start:#x}..{end:#x} without a wait for {other}"));
            }
        }
        self.cut(start, end);
        Ok(())
    }

    fn cut(&mut self, start: u64, end: u64) {
        let parts = std::mem::take(&mut self.freed).into_iter().flat_map(|(from, to, stream, time)| {
            [(from, to.min(start), stream, time), (from.max(end), to, stream, time)]
        });
        self.freed = parts.filter(|&(from, to, ..)| from < to).collect();
    }
}

impl OrderedDevice {
    fn new(mib: u64) -> Arc<Self> {
        Arc::new(Self { memory: VirtualDevice::with_capacity(mib * MIB), order: Mutex::default() })
    }

    fn free_block(&self, block: Allocation) {
        let range = (block.address(), block.address() + block.size(), block.stream());
        {
            let mut order = lock(&self.order);
            let time = order.tick();
            order.cut(range.0, range.1);
            order.freed.push((range.0, range.1, range.2, time));
        }
        drop(block);
    }
}

impl Device for OrderedDevice {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        self.memory.allocate(size)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        // The driver waits for all work.
        lock(&self.order).cut(address, address + size);
        self.memory.free(address, size)
    }

    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.memory.memory_info()
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        lock(&self.order).expect(false, "the host waits");
        Ok(())
    }

    fn is_capturing(&self, stream: u64) -> bool {
        lock(&self.order).captured == Some(stream)
    }

    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        let event = self.memory.record_event(stream)?;
        let order = &mut *lock(&self.order);
        order.expect(order.captured != Some(stream), "an event is recorded on a captured stream");
        order.expect(!order.is_capturing, "an event is recorded during a capture");
        let now = order.tick();
        order.events.insert(event, (stream, now));
        Ok(event)
    }

    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        self.memory.event_done(event)
    }

    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        self.memory.synchronize(event)
    }

    fn wait_event(&self, stream: u64, event: EventId) -> Result<(), DeviceError> {
        let order = &mut *lock(&self.order);
        order.expect(order.captured != Some(stream), "a captured stream waits");
        order.expect(!order.is_capturing, "a stream waits during a capture");
        if order.refuses {
            return Err(DeviceError::Unsupported("refused".to_owned()));
        }
        let Some(&(other, time)) = order.events.get(&event) else {
            order.expect(false, "a stream waits for a destroyed event");
            return Ok(());
        };
        order.expect(other != stream, "a stream waits for itself");
        order.waits.push((stream, other, time));
        Ok(())
    }

    fn discard_event(&self, event: EventId) -> Result<(), DeviceError> {
        let order = &mut *lock(&self.order);
        let was_alive = order.events.remove(&event).is_some();
        order.expect(was_alive, "an event is destroyed twice");
        order.destroyed += 1;
        Ok(())
    }
}

impl VirtualMemory for OrderedDevice {
    fn reserve(&self, size: u64) -> Result<u64, DeviceError> {
        self.memory.reserve(size)
    }

    fn release(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        VirtualMemory::release(&self.memory, address, size)
    }

    fn map(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError> {
        self.memory.map(address, size, page)
    }

    fn unmap(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError> {
        lock(&self.order).cut(address, address + size);
        self.memory.unmap(address, size, page)
    }
}

/// Plans whose places overlap at random, on three streams.
fn plans() -> impl Strategy<Value = Plan> {
    let request = (1u64..6000, 0u32..3, prop::option::weighted(0.9, any::<u64>()));
    let requests = prop::collection::vec(request, 0..24);
    (requests.clone(), requests, 1u64..5).prop_map(|(startup, step, pages)| {
        let segment = pages * PAGE;
        let place = |(units, stream, at): (u64, u32, Option<u64>)| {
            let size = (units * 512).min(segment);
            let offset = at.map(|at| at % ((segment - size) / 512 + 1) * 512);
            PlannedRequest { size, stream, offset }
        };
        let all = |list: Vec<_>| list.into_iter().map(place).collect();
        Plan::shared(segment, all(startup), all(step)).unwrap()
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let expandable = crate::torch("expandable_segments:True", vramscope_allocator::TorchRelease::new(2, 11));
    prop_oneof![Just(torch_2_11()), Just(expandable)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Follows the plan, leaves it, frees in any order, captures, and empties the cache, on devices that run out of memory and refuse to
    /// wait.
    #[test]
    fn a_stream_waits_for_every_stream_whose_memory_it_gets(
        plan in plans(),
        policy in policies(),
        mib in 4u64..80,
        captures in any::<bool>(),
        steps in prop::collection::vec((0u8..20, any::<usize>(), 1u64..6000), 1..200),
    ) {
        let device = OrderedDevice::new(mib);
        let pool = MemoryPool::new(&policy, vec![Arc::clone(&device) as Arc<dyn Device>]).unwrap();
        let all: Vec<PlannedRequest> = plan.startup().iter().chain(plan.step()).copied().collect();
        // The plan numbers the streams in the order of their first use, so some of them differ.
        let streams = [0, 7, 9];
        pool.follow_plan(Arc::new(plan));
        let mut live: Vec<Allocation> = Vec::new();
        let mut next = 0;
        for (what, which, units) in steps {
            let planned = all.get(next % all.len().max(1)).copied();
            let request = match (what, planned) {
                (0..9, Some(planned)) => {
                    next += 1;
                    Some((planned.size, streams[planned.stream as usize]))
                }
                (9 | 10, _) => Some((units * 512, streams[which % 3])),
                _ => None,
            };
            match (request, what) {
                (Some((size, stream)), _) => {
                    let Ok(block) = pool.malloc_on(stream, size) else { continue };
                    prop_assert_eq!(block.stream(), stream);
                    let (start, end) = (block.address(), block.address() + block.size());
                    let is_apart = |other: &Allocation| {
                        end <= other.address() || other.address() + other.size() <= start
                    };
                    prop_assert!(live.iter().all(is_apart));
                    let checked = lock(&device.order).check(start, end, stream);
                    prop_assert_eq!(checked, Ok(()));
                    if which % 5 == 0 && !captures {
                        block.record_stream(streams[which % 3]).unwrap();
                    }
                    live.push(block);
                }
                (_, 16) => {
                    let mut order = lock(&device.order);
                    order.is_capturing ^= true;
                    let begins = order.is_capturing;
                    drop(order);
                    if begins { pool.begin_capture() } else { pool.end_capture() }
                }
                (_, 17) => lock(&device.order).refuses ^= true,
                (_, 19) if captures => {
                    let mut order = lock(&device.order);
                    order.captured = match order.captured {
                        None => Some(streams[which % 3]),
                        Some(_) => None,
                    };
                }
                (_, 18) if !lock(&device.order).is_capturing => pool.free_all_blocks().unwrap(),
                _ if !live.is_empty() => device.free_block(live.swap_remove(which % live.len())),
                _ => {}
            }
        }
        lock(&device.order).captured = None;
        if std::mem::take(&mut lock(&device.order).is_capturing) {
            pool.end_capture();
        }
        live.into_iter().for_each(|block| device.free_block(block));
        pool.free_all_blocks().unwrap();
        prop_assert_eq!((pool.total_bytes(), pool.statistics().active.current), (0, 0));
        prop_assert_eq!(&lock(&device.order).broken, &Vec::<&str>::new());
    }
}

/// Two streams that use the same 4 MiB in turn.
fn in_turn() -> (Arc<OrderedDevice>, MemoryPool) {
    let on = |stream| PlannedRequest { size: 4 * MIB, stream, offset: Some(0) };
    let plan = Arc::new(Plan::shared(4 * MIB, Vec::new(), vec![on(0), on(1), on(1)]).unwrap());
    assert_eq!(plan.waits(), 2);
    let device = OrderedDevice::new(64);
    let pool = MemoryPool::new(&torch_2_11(), vec![Arc::clone(&device) as Arc<dyn Device>]).unwrap();
    pool.follow_plan(plan);
    (device, pool)
}

#[test]
fn a_step_waits_as_often_as_its_plan_predicts() {
    let (device, pool) = in_turn();
    let mut addresses = Vec::new();
    for _ in 0..5 {
        for stream in [0, 7, 7] {
            let block = pool.malloc_on(stream, 4 * MIB).unwrap();
            addresses.push(block.address());
            device.free_block(block);
        }
    }
    assert!(addresses.iter().all(|&address| address == addresses[0]));
    let used = pool.plan_use().unwrap();
    // The first request of the program has no stream to wait for.
    assert_eq!((used.planned.requests, used.waits, pool.total_bytes()), (15, 9, 4 * MIB));
    let order = lock(&device.order);
    assert_eq!(order.waits.len(), 9);
    // No event is recorded for the second request of a step, whose successor is on the same stream.
    assert_eq!(order.events.len() + order.destroyed, 10);
    assert_eq!(order.events.len(), 1, "the last event stays until its memory is used");
}

#[test]
fn a_stream_that_cannot_wait_gets_other_memory() {
    let (device, pool) = in_turn();
    device.free_block(pool.malloc_on(0, 4 * MIB).unwrap());
    lock(&device.order).refuses = true;
    let block = pool.malloc_on(7, 4 * MIB).unwrap();
    let used = pool.plan_use().unwrap();
    assert_eq!((used.planned.requests, used.in_use.requests, used.waits), (1, 1, 0));
    drop(block);
}

#[test]
fn a_capture_gets_no_memory_of_other_streams() {
    let (device, pool) = in_turn();
    device.free_block(pool.malloc_on(0, 4 * MIB).unwrap());
    pool.begin_capture();
    lock(&device.order).is_capturing = true;
    let block = pool.malloc_on(7, 4 * MIB).unwrap();
    assert_eq!(pool.plan_use().unwrap().in_use.requests, 1);
    device.free_block(block);
    lock(&device.order).is_capturing = false;
    pool.end_capture();
    let block = pool.malloc_on(7, 4 * MIB).unwrap();
    assert_eq!(pool.plan_use().unwrap().waits, 1);
    drop(block);
}

/// A part of a place is mapped when the memory ends. Another request gets it, before any planned block.
#[test]
fn the_first_block_of_a_plan_may_have_no_place() {
    let at = |stream, size, offset| PlannedRequest { size, stream, offset: Some(offset) };
    let places = vec![at(0, 2 * MIB, 5 * MIB), at(1, MIB, 3 * MIB + 512 * 1024)];
    let device = OrderedDevice::new(22);
    let pool = MemoryPool::new(&torch_2_11(), vec![Arc::clone(&device) as Arc<dyn Device>]).unwrap();
    pool.follow_plan(Arc::new(Plan::shared(8 * MIB, places, Vec::new()).unwrap()));
    let _other = pool.malloc_on(0, 3 * MIB).unwrap();
    pool.begin_capture();
    let _first = pool.malloc_on(0, 2 * MIB).unwrap();
    let second = pool.malloc_on(7, MIB).unwrap();
    let used = pool.plan_use().unwrap();
    assert_eq!((used.differing.requests, used.no_memory.requests, pool.total_bytes()), (1, 2, 22 * MIB));
    assert_eq!(second.stream(), 7);
    device.free_block(second);
    pool.end_capture();
}

/// The stream of the segment is not the stream of the block.
#[test]
fn a_block_waits_for_the_default_stream_if_it_uses_the_block() {
    let (device, pool) = in_turn();
    device.free_block(pool.malloc_on(0, 4 * MIB).unwrap());
    let block = pool.malloc_on(7, 4 * MIB).unwrap();
    assert_eq!(block.stream(), 7);
    block.record_stream(0).unwrap();
    device.memory.set_busy(0, true);
    device.free_block(block);
    assert_eq!(pool.statistics().active.current, 4 * MIB);
    device.memory.set_busy(0, false);
    let block = pool.malloc_on(7, 4 * MIB).unwrap();
    assert_eq!(pool.plan_use().unwrap().planned.requests, 3);
    drop(block);
}
