//! The same program on GPUs: on the phantom GPU, and on this machine's GPU if it has one.
#![cfg(feature = "cuda")]

use std::sync::Arc;

use vramscope_allocator::{CudaDevice, Device, DeviceError, MemoryPool, Policy, TorchRelease, VirtualDevice};
use vramscope_engine::{Plan, PlannedRequest};
use vramscope_testing::{is_on_phantom, on_phantom, phantom_gpu};

use crate::{MIB, torch};

/// Runs the body of a test on the first GPU.
fn on_a_gpu(body: impl Fn(CudaDevice)) {
    on_phantom(1, || body(CudaDevice::open(0).unwrap()));
    if !is_on_phantom()
        && CudaDevice::count().is_ok()
        && let Ok(gpu) = CudaDevice::open(0)
    {
        body(gpu);
    }
}

#[test]
fn a_missing_driver_is_an_error_with_its_reason() {
    let Err(e) = CudaDevice::count() else {
        return vramscope_testing::skip("no-gpu", "this machine has a driver");
    };
    let said = e.to_string();
    assert!(said.contains("there is no CUDA driver") || matches!(e, DeviceError::Driver { .. }), "{said}");
}

/// Sizes and counts do not depend on the device. Addresses and the driver's overhead do.
#[test]
fn a_program_counts_the_same_on_a_gpu() {
    on_a_gpu(|gpu| {
        let total = gpu.memory_info().unwrap().total;
        let gpu: Arc<dyn Device> = Arc::new(gpu);
        for policy in [
            Policy::cupy(),
            torch("", TorchRelease::new(2, 11)),
            torch("expandable_segments:True", TorchRelease::new(2, 11)),
        ] {
            let run = |device: Arc<dyn Device>| {
                let pool = MemoryPool::new(&policy, vec![device]).unwrap();
                let mut kept: Vec<_> = (1..200).map(|i| pool.malloc(i * i * 997).unwrap()).collect();
                kept.retain(|block| block.requested_size() % 2 == 0);
                let again: Vec<_> = (1..100).map(|i| pool.malloc(i * 100_003).unwrap()).collect();
                pool.free_all_blocks().unwrap();
                drop(again);
                pool.malloc(total * 2).unwrap_err();
                let s = pool.statistics();
                (s.requested, s.allocated, s.active, s.reserved, s.segments_allocated, s.segments_freed)
            };
            assert_eq!(run(Arc::clone(&gpu)), run(Arc::new(VirtualDevice::with_capacity(total))));
        }
    });
}

/// Driver events on a stream without work, so nothing waits; `waiting.rs` tests waiting.
#[test]
fn a_stream_of_a_gpu_is_marked() {
    on_a_gpu(|gpu| {
        let stream = gpu.create_stream().unwrap();
        let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::new(gpu)]).unwrap();
        let block = pool.malloc(MIB).unwrap();
        block.record_stream(stream).unwrap();
        drop(block);
        pool.free_all_blocks().unwrap();
        assert_eq!((pool.statistics().active.current, pool.total_bytes()), (0, 0));
    });
}

/// Streams that use the same memory of a plan in turn.
#[test]
fn streams_of_a_gpu_wait_for_each_other() {
    on_a_gpu(|gpu| {
        let on = |stream| PlannedRequest { size: 4 * MIB, stream, offset: Some(0) };
        let plan = Plan::shared(4 * MIB, Vec::new(), vec![on(0), on(1), on(2)]).unwrap();
        let streams = [0, gpu.create_stream().unwrap(), gpu.create_stream().unwrap()];
        let pool = MemoryPool::new(&torch("", TorchRelease::new(2, 11)), vec![Arc::new(gpu)]).unwrap();
        pool.follow_plan(Arc::new(plan));
        for _ in 0..100 {
            streams.iter().for_each(|&stream| drop(pool.malloc_on(stream, 4 * MIB).unwrap()));
        }
        let used = pool.plan_use().unwrap();
        assert_eq!((used.planned.requests, used.waits, pool.total_bytes()), (300, 299, 4 * MIB));
        // A stream that the device does not know gets other memory.
        let other = pool.malloc_on(0x1000, 4 * MIB).unwrap();
        assert_eq!((pool.plan_use().unwrap().waits, pool.total_bytes() > 4 * MIB), (299, true));
        drop(other);
    });
}

#[test]
fn an_event_is_awaited_on_streams_of_its_device() {
    on_a_gpu(|gpu| {
        let (first, second) = (gpu.create_stream().unwrap(), gpu.create_stream().unwrap());
        let event = gpu.record_event(first).unwrap();
        assert_eq!(gpu.wait_event(second, event), Ok(()));
        assert!(gpu.wait_event(0x1000, event).is_err());
        assert_eq!(gpu.discard_event(event), Ok(()));
        assert!(gpu.wait_event(second, event).is_err());
        assert_eq!(
            [first, second, 0, 0x1000].map(|stream| gpu.is_capturing(stream)),
            [false, false, false, true]
        );
    });
}

/// Two phantom GPUs with exactly known memory use.
#[test]
fn a_device_allocates_the_requested_bytes_on_its_own_gpu() {
    on_phantom(2, || {
        let (first, second) = (CudaDevice::open(0).unwrap(), CudaDevice::open(1).unwrap());
        let is = phantom_gpu(1);
        assert_eq!((CudaDevice::count().unwrap(), second.name().unwrap()), (2, is.name));
        assert_eq!(second.memory_info().unwrap().total, is.total_bytes);
        // Bytes used beyond the contexts, in MiB.
        let taken = || {
            [&first, &second]
                .map(|gpu| (gpu.memory_info().unwrap().used() - is.context_bytes) as f64 / MIB as f64)
        };
        assert_eq!(taken(), [0.0, 0.0]);
        let block = second.allocate(100 * MIB).unwrap();
        assert_eq!(taken(), [0.0, 100.0]);

        // Reserved addresses use no memory, mapped pages do.
        let pages = second.virtual_memory().unwrap();
        let range = pages.reserve(64 * MIB).unwrap();
        assert_eq!(taken(), [0.0, 100.0]);
        pages.map(range, 40 * MIB, 20 * MIB).unwrap();
        assert_eq!(taken(), [0.0, 140.0]);
        pages.map(range + 20 * MIB, 20 * MIB, 20 * MIB).unwrap_err();
        pages.release(range, 64 * MIB).unwrap_err();
        pages.unmap(range, 40 * MIB, 20 * MIB).unwrap();
        assert_eq!(taken(), [0.0, 100.0]);
        pages.release(range, 64 * MIB).unwrap();

        second.free(block, 100 * MIB).unwrap();
        let again = DeviceError::UnknownAddress { address: block, size: 100 * MIB };
        assert_eq!(second.free(block, 100 * MIB), Err(again.clone()));
        assert_eq!(first.free(block, 100 * MIB), Err(again));
        assert_eq!(taken(), [0.0, 0.0]);
    });
}

#[test]
fn an_error_of_the_driver_names_the_function_and_the_reason() {
    on_phantom(1, || {
        let none = CudaDevice::open(1).unwrap_err().to_string();
        assert_eq!(none, "cuDeviceGet failed: invalid device ordinal");
        let gpu = CudaDevice::open(0).unwrap();
        let before = gpu.memory_info().unwrap();
        let more = before.free + 2 * MIB;
        assert_eq!(gpu.allocate(more), Err(DeviceError::OutOfMemory { size: more }));
        // Half of the pages are mapped before memory runs out.
        let pages = gpu.virtual_memory().unwrap();
        let (range, page) = (pages.reserve(2 * before.total).unwrap(), before.total / 4);
        assert_eq!(pages.map(range, 8 * page, page), Err(DeviceError::OutOfMemory { size: page }));
        assert_eq!(gpu.memory_info().unwrap(), before);
        let foreign = gpu.record_event(4096).unwrap_err();
        assert_eq!(
            foreign.to_string(),
            "stream 0x1000 does not belong to this device; pass it to adopt_stream first"
        );
    });
}

/// Also if another library keeps the context alive.
#[test]
fn a_device_that_is_dropped_gives_everything_back() {
    on_phantom(1, || {
        let other = CudaDevice::open(0).unwrap();
        let before = other.memory_info().unwrap();
        let gpu = CudaDevice::open(0).unwrap();
        gpu.allocate(100 * MIB).unwrap();
        let pages = gpu.virtual_memory().unwrap();
        let range = pages.reserve(64 * MIB).unwrap();
        pages.map(range, 40 * MIB, 20 * MIB).unwrap();
        let stream = gpu.create_stream().unwrap();
        let event = gpu.record_event(stream).unwrap();
        assert_eq!(gpu.event_done(event), Ok(true));
        gpu.record_event(stream).unwrap();
        assert_eq!(other.memory_info().unwrap().free, before.free - 140 * MIB);
        drop(gpu);
        assert_eq!(other.memory_info().unwrap(), before);
        drop(other);
        // On a thread that has no context yet.
        let again = std::thread::spawn(|| CudaDevice::open(0).unwrap().memory_info().unwrap());
        assert_eq!(again.join().unwrap(), before);
    });
}
