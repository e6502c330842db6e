//! GPUs through the driver and through NVML: phantom GPUs, and this machine's GPU if it has one.
#![cfg(all(feature = "cuda", feature = "nvml"))]

use std::sync::Arc;

use vramscope_allocator::{CudaDevice, MemoryPool, Policy};
use vramscope_profiler::{
    CombinedSource, CudaSource, GpuMemoryProfiler, GpuProcess, MemorySource as _, NvmlDevice, NvmlSource,
    PoolSource, Reading, SelectError, SourceInfo, nvml_devices,
};
use vramscope_testing::{is_on_phantom, on_phantom, phantom_gpu};

const MIB: u64 = 1 << 20;

/// Checks that hold on any machine with a GPU. Returns the readings of the driver and of NVML.
fn look_at(cuda: &CudaSource, nvml: &NvmlSource) -> [Reading; 2] {
    let [driver, nvml] = [cuda.read().unwrap(), nvml.read().unwrap()];
    let total = driver.device_total.unwrap();
    assert!(driver.device_used.unwrap() <= total);
    // NVML also counts the driver's own memory.
    assert!(nvml.device_total.unwrap() >= total && nvml.device_used.unwrap() > 0);
    assert!(!nvml_devices().unwrap().is_empty());
    assert!(matches!(CudaSource::new(99), Err(SelectError::NoSuchDevice { index: 99, .. })));
    assert!(matches!(NvmlSource::new(99), Err(SelectError::NoSuchDevice { index: 99, .. })));
    [driver, nvml]
}

/// The numbers of the driver and NVML on the phantom GPU, and on a real GPU if there is one.
#[test]
fn a_gpu_is_seen_through_the_driver_and_through_nvml() {
    on_phantom(1, || {
        let readings = look_at(&CudaSource::new(0).unwrap(), &NvmlSource::new(0).unwrap());
        let gpu = phantom_gpu(0);
        let seen = Reading {
            device_used: Some(gpu.context_bytes),
            device_total: Some(gpu.total_bytes),
            ..Reading::default()
        };
        assert_eq!(readings, [seen, Reading { process_used: Some(gpu.context_bytes), ..seen }]);
    });
    if is_on_phantom() {
        return;
    }
    let (cuda, nvml) = match (CudaSource::new(0), NvmlSource::new(0)) {
        (Ok(cuda), Ok(nvml)) => (cuda, nvml),
        (Err(e), _) | (_, Err(e)) => {
            assert!(e.to_string().starts_with("no CUDA device is available: "), "{e}");
            return;
        }
    };
    let [_, nvml] = look_at(&cuda, &nvml);
    let smi = std::process::Command::new("nvidia-smi")
        .args(["--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"])
        .output();
    match smi {
        Ok(smi) => {
            let mib: u64 = String::from_utf8(smi.stdout).unwrap().trim().parse().unwrap();
            assert_eq!(nvml.device_total.unwrap() >> 20, mib);
        }
        Err(e) => vramscope_testing::skip("nvidia-smi", &e.to_string()),
    }
}

/// Two phantom GPUs with exactly known memory use, and this process on one of them.
#[test]
fn nvml_tells_gpus_and_processes_apart() {
    on_phantom(2, || {
        let gpus = [0, 1].map(phantom_gpu);
        let device = |index: usize, used, processes| NvmlDevice {
            index: index as u32,
            name: gpus[index].name.clone(),
            used,
            total: gpus[index].total_bytes,
            processes,
        };
        let nvml = NvmlSource::new("cuda:1").unwrap();
        assert_eq!(nvml.info(), &SourceInfo { name: gpus[1].name.clone(), device_id: Some(1) });
        // NVML creates no context.
        let free =
            Reading { device_used: Some(0), device_total: Some(gpus[1].total_bytes), ..Reading::default() };
        assert_eq!(nvml.read(), Ok(free));
        assert_eq!(nvml_devices(), Ok(vec![device(0, 0, vec![]), device(1, 0, vec![])]));

        let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::new(CudaDevice::open(1).unwrap())]).unwrap();
        let block = pool.malloc(100 * MIB).unwrap();
        let used = gpus[1].context_bytes + 100 * MIB;
        assert_eq!(nvml.read(), Ok(Reading { device_used: Some(used), process_used: Some(used), ..free }));
        let this = vec![GpuProcess { pid: std::process::id(), used: Some(used) }];
        assert_eq!(nvml_devices(), Ok(vec![device(0, 0, vec![]), device(1, used, this)]));
        let other = NvmlSource::of_process(1, 1).unwrap();
        assert_eq!(other.read(), Ok(Reading { device_used: Some(used), ..free }));
        assert!(nvml.is_of_this_process() && !other.is_of_this_process());

        // Memory that the pool did not reserve is hidden.
        let both = CombinedSource::new(PoolSource::new(&pool, 0).unwrap(), nvml);
        let reading = both.read().unwrap();
        assert_eq!((reading.reserved, reading.hidden()), (Some(100 * MIB), Some(gpus[1].context_bytes)));
        drop(block);
        pool.free_all_blocks().unwrap();
        assert_eq!(both.read().unwrap().process_used, Some(gpus[1].context_bytes));
        // The context ends with the last device.
        drop((both, pool));
        assert_eq!(nvml_devices(), Ok(vec![device(0, 0, vec![]), device(1, 0, vec![])]));
    });
}

/// A profiler that knows only the driver's numbers.
#[test]
fn a_call_is_profiled_by_what_the_driver_says() {
    on_phantom(2, || {
        let gpu = CudaDevice::open(1).unwrap();
        let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::new(gpu)]).unwrap();
        let profiler = GpuMemoryProfiler::new(CudaSource::new(1).unwrap()).unwrap();
        assert_eq!(profiler.source().device(), "cuda:1");
        let (block, result) = profiler.profile_function("load", || pool.malloc(100 * MIB).unwrap());
        let context = phantom_gpu(1).context_bytes;
        let [before, after] = [&result.memory_before, &result.memory_after].map(|s| s.device_used_memory);
        assert_eq!((before, after), (Some(context), Some(context + 100 * MIB)));
        assert!(!result.peak_is_exact);
        drop(block);
    });
}
