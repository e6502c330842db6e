//! NVML, for PyTorch, monitors and `vramscope top`.

use std::ffi::{c_char, c_int};

use crate::nvml;
use crate::out::Out;
use crate::texts;

calls! {
    Nvml;
    answer {
        nvmlDeviceGetCount_v2(count: Out<u32>) = nvml::count;
        nvmlDeviceGetCount(count: Out<u32>) = nvml::count;
        nvmlDeviceGetHandleByIndex_v2(index: u32, device: Out<usize>) = nvml::by_index;
        nvmlDeviceGetHandleByIndex(index: u32, device: Out<usize>) = nvml::by_index;
        nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, device: Out<usize>) = nvml::by_bus_id;
        nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: Out<usize>) = nvml::by_uuid;
        nvmlDeviceGetIndex(device: usize, index: Out<u32>) = nvml::index;
        nvmlDeviceGetMinorNumber(device: usize, number: Out<u32>) = nvml::index;
        nvmlDeviceGetName(device: usize, name: Out<u8>, length: u32) = nvml::name;
        nvmlDeviceGetUUID(device: usize, uuid: Out<u8>, length: u32) = nvml::uuid;
        nvmlDeviceGetPciInfo_v3(device: usize, info: Out<nvml::PciInfo>) = nvml::pci_info;
        nvmlDeviceGetMemoryInfo(device: usize, memory: Out<[u64; 3]>) = nvml::memory;
        nvmlDeviceGetMemoryInfo_v2(device: usize, memory: Out<[u64; 5]>) = nvml::memory_v2;
        nvmlDeviceGetMigMode(device: usize, current: Out<u32>, pending: Out<u32>) = nvml::mig_mode;
        nvmlDeviceGetMaxMigDeviceCount(device: usize, count: Out<u32>) = nvml::most_instances;
        nvmlDeviceGetMigDeviceHandleByIndex(device: usize, index: u32, instance: Out<usize>) = nvml::instance_by_index;
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance: usize, device: Out<usize>) = nvml::device_of_instance;
        nvmlDeviceIsMigDeviceHandle(device: usize, is: Out<u32>) = nvml::is_instance;
        nvmlDeviceGetUtilizationRates(device: usize, rates: Out<[u32; 2]>) = nvml::utilization;
        nvmlDeviceGetCudaComputeCapability(device: usize, major: Out<c_int>, minor: Out<c_int>) = nvml::capability;
        nvmlDeviceGetComputeRunningProcesses(device: usize, count: Out<u32>, processes: *mut [u64; 2])
            = nvml::processes_v1;
        nvmlDeviceGetComputeRunningProcesses_v2(device: usize, count: Out<u32>, processes: *mut [u64; 3])
            = nvml::processes;
        nvmlDeviceGetComputeRunningProcesses_v3(device: usize, count: Out<u32>, processes: *mut [u64; 3])
            = nvml::processes;
        nvmlDeviceGetGraphicsRunningProcesses_v3(device: usize, count: Out<u32>) = nvml::none;
        nvmlDeviceGetMPSComputeRunningProcesses_v3(device: usize, count: Out<u32>) = nvml::none;
        nvmlDeviceGetGpuFabricInfoV(device: usize, info: Out<nvml::FabricInfo>) = nvml::fabric;
        nvmlSystemGetDriverVersion(version: Out<u8>, length: u32) = nvml::driver_version;
        nvmlSystemGetNVMLVersion(version: Out<u8>, length: u32) = nvml::driver_version;
        nvmlSystemGetCudaDriverVersion(version: Out<c_int>) = crate::device::driver_version;
        nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) = crate::device::driver_version;
        nvmlSystemGetProcessName(id: u32, name: Out<u8>, length: u32) = nvml::process_name;
    }
    value {
        nvmlErrorString(code: c_int) -> *const c_char = texts::nvml_string;
    }
    succeed {
        nvmlInit nvmlInit_v2 nvmlInitWithFlags nvmlShutdown
    }
    refuse {
        nvmlDeviceGetClockInfo nvmlDeviceGetEccMode nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetFanSpeed
        nvmlDeviceGetMaxClockInfo nvmlDeviceGetMemoryAffinity
        nvmlDeviceGetNvLinkRemoteDeviceType nvmlDeviceGetNvLinkRemotePciInfo_v2 nvmlDeviceGetNvLinkState
        nvmlDeviceGetPerformanceState nvmlDeviceGetPowerManagementLimit nvmlDeviceGetPowerUsage
        nvmlDeviceGetTemperature nvmlDeviceGetTopologyCommonAncestor nvmlDeviceGetTotalEnergyConsumption
        nvmlDeviceGetCpuAffinity nvmlDeviceGetPcieThroughput nvmlDeviceGetP2PStatus
    }
}
