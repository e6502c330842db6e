//! The same program on a GPU, where there is one.
#![cfg(feature = "cuda")]

use std::sync::Arc;

use vramscope_allocator::{CudaDevice, Device, DeviceError, MemoryPool, Policy, TorchRelease, VirtualDevice};

use crate::{MIB, torch};

/// The first GPU; `None`, and a skip, where there is none.
fn gpu() -> Option<CudaDevice> {
    match CudaDevice::count().and_then(|_| CudaDevice::open(0)) {
        Ok(gpu) => Some(gpu),
        Err(e) => {
            vramscope_testing::skip("gpu", &e.to_string());
            None
        }
    }
}

#[test]
fn a_machine_without_a_driver_says_so() {
    let Err(e) = CudaDevice::count() else {
        return vramscope_testing::skip("no-gpu", "this machine has a driver");
    };
    let said = e.to_string();
    assert!(said.contains("there is no CUDA driver") || matches!(e, DeviceError::Driver { .. }), "{said}");
}

/// Sizes and counts do not depend on the device; addresses and what the driver keeps for itself do.
#[test]
fn a_program_counts_the_same_on_a_gpu() {
    let Some(gpu) = gpu() else { return };
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
}

/// The driver's marks: without work, so that it does not show that anybody waits; `waiting.rs` does.
#[test]
fn a_stream_of_a_gpu_is_marked() {
    let Some(gpu) = gpu() else { return };
    let stream = gpu.create_stream().unwrap();
    let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::new(gpu)]).unwrap();
    let block = pool.malloc(MIB).unwrap();
    block.record_stream(stream).unwrap();
    drop(block);
    pool.free_all_blocks().unwrap();
    assert_eq!((pool.statistics().active.current, pool.total_bytes()), (0, 0));
}
