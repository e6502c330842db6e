//! GPUs through the driver and through NVML: phantom GPUs, and this machine's GPU if it has one.
#![cfg(all(feature = "cuda", feature = "nvml"))]

use std::sync::Arc;

use vramscope_allocator::{CudaDevice, MemoryPool, Policy};
use vramscope_profiler::{
    CombinedSource, CudaSource, DeviceMemory, DeviceMemorySource, GpuMemoryProfiler, GpuProcess,
    MemorySource as _, NvmlDevice, NvmlSource, PoolSource, Reading, SelectError, SourceError, SourceInfo,
    nvml_devices, starts_on_mig_instance,
};
use vramscope_testing::{PhantomGpu, PhantomMig, is_on_phantom, on_phantom, on_phantom_of, phantom_gpu};

const MIB: u64 = 1 << 20;

/// The UUID of a phantom GPU or of its MIG instance.
fn uuid(kind: &str, instance: usize, gpu: usize) -> String {
    format!("{kind}-7672616d-7363-6f70-6570-68616e74{instance:02x}{gpu:02x}")
}

fn memory(used: u64, total: u64, source: DeviceMemorySource) -> DeviceMemory {
    DeviceMemory { used, free: total - used, total, source }
}

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
            device_source: Some(DeviceMemorySource::Driver),
            ..Reading::default()
        };
        assert_eq!(
            readings,
            [
                seen,
                Reading {
                    process_used: Some(gpu.context_bytes),
                    device_source: Some(DeviceMemorySource::Nvml),
                    ..seen
                }
            ]
        );
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
fn nvml_distinguishes_gpus_and_processes() {
    on_phantom(2, || {
        let gpus = [0, 1].map(phantom_gpu);
        let device = |index: usize, used, processes| NvmlDevice {
            index: index as u32,
            uuid: Some(uuid("GPU", 0x6f, index)),
            name: gpus[index].name.clone(),
            memory: memory(used, gpus[index].total_bytes, DeviceMemorySource::Nvml),
            processes,
        };
        let nvml = NvmlSource::new("cuda:1").unwrap();
        assert_eq!(nvml.info(), &SourceInfo { name: gpus[1].name.clone(), device_id: Some(1) });
        // NVML creates no context.
        let free = Reading::from(memory(0, gpus[1].total_bytes, DeviceMemorySource::Nvml));
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
fn a_call_is_profiled_with_the_drivers_numbers() {
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

/// A GPU of the size of phantom GPU 0 that shares the host's memory: NVML then has no numbers.
fn integrated(name: &str) -> PhantomGpu {
    PhantomGpu { name: name.to_owned(), is_integrated: true, ..phantom_gpu(0) }
}

#[test]
fn a_gpu_that_shares_the_hosts_memory_has_the_numbers_of_the_host() {
    on_phantom_of(&[integrated("NVIDIA GB10")], &[], || {
        let host = DeviceMemory::of_host().unwrap();
        assert_eq!(host.source, DeviceMemorySource::Meminfo);
        let [gpu] = &nvml_devices().unwrap()[..] else { panic!() };
        assert_eq!((gpu.memory.source, gpu.memory.total), (host.source, host.total));
        assert!(gpu.memory.used > 0 && gpu.memory.used + gpu.memory.free == gpu.memory.total);
        let readings = [NvmlSource::new(0).unwrap().read(), CudaSource::new(0).unwrap().read()];
        for reading in readings.map(Result::unwrap) {
            assert_eq!((reading.device_source, reading.device_total), (Some(host.source), Some(host.total)));
        }
    });
}

/// NVML may also return the total of the system as if it were the GPU's own.
#[test]
fn the_total_of_the_system_is_not_taken_for_the_gpus() {
    on_phantom_of(&[PhantomGpu { is_integrated: false, ..integrated("Orin (nvgpu)") }], &[], || {
        let [gpu] = &nvml_devices().unwrap()[..] else { panic!() };
        assert_eq!(gpu.memory.source, DeviceMemorySource::Meminfo);
        assert_eq!(gpu.memory.total, DeviceMemory::of_host().unwrap().total);
    });
}

/// A GPU with its own memory whose numbers NVML does not report either, for another reason.
#[test]
fn a_gpu_without_numbers_does_not_have_those_of_the_host() {
    on_phantom_of(&[integrated("NVIDIA GB100")], &[], || {
        let why = SourceError::Nvml("NVML does not report the memory of GPU 0 (NVIDIA GB100)".to_owned());
        assert_eq!(NvmlSource::new(0).unwrap().read(), Err(why.clone()));
        assert_eq!(nvml_devices(), Err(why));
    });
}

/// A GPU of 141 GiB, divided into two instances of the size of phantom GPU 0, and a second GPU.
fn divided() -> [PhantomGpu; 2] {
    let mig = Some(PhantomMig { instances: 2, whole_bytes: 141 << 30 });
    [PhantomGpu { mig, ..phantom_gpu(0) }, phantom_gpu(1)]
}

#[test]
fn an_instance_of_a_divided_gpu_has_its_own_size() {
    on_phantom_of(&divided(), &[], || {
        let (size, whole) = (phantom_gpu(0).total_bytes, 141 << 30);
        let instance = |number: usize, used, processes| NvmlDevice {
            index: 0,
            uuid: Some(uuid("MIG", number, 0)),
            name: format!("{} MIG 1g.16gb", phantom_gpu(0).name),
            memory: memory(used, size, DeviceMemorySource::NvmlMig),
            processes,
        };
        let second = NvmlDevice {
            index: 1,
            uuid: Some(uuid("GPU", 0x6f, 1)),
            name: phantom_gpu(1).name,
            memory: memory(0, phantom_gpu(1).total_bytes, DeviceMemorySource::Nvml),
            processes: vec![],
        };
        let all = vec![instance(0, 0, vec![]), instance(1, 0, vec![]), second.clone()];
        assert_eq!(nvml_devices(), Ok(all));
        // Nothing shows which instance the process will use.
        let nvml = NvmlSource::new(0).unwrap();
        assert_eq!(nvml.read(), Ok(memory(0, whole, DeviceMemorySource::Nvml).into()));
        let gpu = CudaDevice::open(0).unwrap();
        let used = phantom_gpu(0).context_bytes;
        let reading = Reading::from(memory(used, size, DeviceMemorySource::NvmlMig));
        assert_eq!(nvml.read(), Ok(Reading { process_used: Some(used), ..reading }));
        let this = vec![GpuProcess { pid: std::process::id(), used: Some(used) }];
        assert_eq!(nvml_devices(), Ok(vec![instance(0, used, this), instance(1, 0, vec![]), second]));
        drop(gpu);
        // The numbers of the other GPU are those of the whole GPU.
        let other = NvmlSource::new(1).unwrap().read().unwrap();
        assert_eq!(other, memory(0, phantom_gpu(1).total_bytes, DeviceMemorySource::Nvml).into());
    });
}

#[test]
fn a_visible_instance_is_found_by_its_uuid() {
    let visible = format!("{},{}", uuid("MIG", 1, 0), uuid("MIG", 9, 9));
    on_phantom_of(&divided(), &[("CUDA_VISIBLE_DEVICES", &visible)], || {
        assert!(starts_on_mig_instance(std::process::id()) && !starts_on_mig_instance(1));
        let nvml = NvmlSource::new("cuda:0").unwrap();
        assert_eq!(nvml.info().name, format!("{} MIG 1g.16gb", phantom_gpu(0).name));
        let expected = memory(0, phantom_gpu(0).total_bytes, DeviceMemorySource::NvmlMig);
        assert_eq!(nvml.read(), Ok(expected.into()));
        let why = NvmlSource::new(1).err().unwrap().to_string();
        assert!(why.ends_with("68616e740909, and NVML lists no such MIG instance, or several"), "{why}");
    });
}

/// The UUID of a whole GPU selects nothing: NVML numbers GPUs by their position.
#[test]
fn the_uuid_of_a_gpu_is_no_instance() {
    on_phantom_of(&divided(), &[("CUDA_VISIBLE_DEVICES", &uuid("GPU", 0x6f, 1))], || {
        assert!(!starts_on_mig_instance(std::process::id()));
        let expected = memory(0, 141 << 30, DeviceMemorySource::Nvml);
        assert_eq!(NvmlSource::new(0).unwrap().read(), Ok(expected.into()));
    });
}
