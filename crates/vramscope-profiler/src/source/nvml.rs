//! GPUs and their processes through NVML, which needs no context.

use std::sync::{Arc, OnceLock};

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use serde::Serialize;

use super::{DeviceSpec, MemorySource, PolledTicker, Reading, SelectError, SourceError, SourceInfo, Ticker};

/// One GPU through NVML: the bytes used by all processes, and the bytes used by one process.
///
/// NVML numbers devices by their position on the bus and ignores `CUDA_VISIBLE_DEVICES`. In a container it may not distinguish processes;
/// the bytes of the process are then `None`.
pub struct NvmlSource {
    pid: u32,
    index: u32,
    info: SourceInfo,
}

impl NvmlSource {
    /// Opens the device that `device` names, with the bytes of this process.
    ///
    /// # Errors
    /// There is no NVML or no such device.
    pub fn new<D>(device: D) -> Result<Arc<Self>, SelectError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        Self::of_process(device, std::process::id())
    }

    /// Opens the device that `device` names, with the bytes of process `pid`.
    ///
    /// # Errors
    /// There is no NVML or no such device.
    pub fn of_process<D>(device: D, pid: u32) -> Result<Arc<Self>, SelectError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        let spec = device.try_into().map_err(Into::into)?;
        let nvml = library().map_err(SelectError::NoDevices)?;
        let none = |e: NvmlError| SelectError::NoDevices(e.to_string());
        let index = spec.of(nvml.device_count().map_err(none)? as usize)?;
        let name = nvml.device_by_index(index as u32).and_then(|d| d.name()).map_err(none)?;
        let info = SourceInfo { name, device_id: Some(index) };
        Ok(Arc::new(Self { pid, index: index as u32, info }))
    }
}

impl MemorySource for NvmlSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        let device = NvmlDevice::read(self.index)?;
        let process_used = device.processes.iter().find(|p| p.pid == self.pid).and_then(|p| p.used);
        Ok(Reading {
            device_used: Some(device.used),
            device_total: Some(device.total),
            process_used,
            ..Reading::default()
        })
    }

    fn is_of_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(PolledTicker(self))
    }
}

/// NVML's data about one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NvmlDevice {
    /// The device's number, by its position on the bus.
    pub index: u32,
    /// The device's name, such as `NVIDIA H200`.
    pub name: String,
    /// Bytes used by all processes.
    #[serde(rename = "used_bytes")]
    pub used: u64,
    /// The size of the device, in bytes.
    #[serde(rename = "total_bytes")]
    pub total: u64,
    /// The compute and graphics processes on the device.
    pub processes: Vec<GpuProcess>,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuProcess {
    /// The process id.
    pub pid: u32,
    /// Bytes of the process on the GPU; `None` if the driver does not report them.
    #[serde(rename = "used_bytes")]
    pub used: Option<u64>,
}

impl NvmlDevice {
    fn read(index: u32) -> Result<Self, SourceError> {
        let failed = |e: NvmlError| SourceError::Nvml(e.to_string());
        let device = library().map_err(SourceError::Nvml)?.device_by_index(index).map_err(failed)?;
        let memory = device.memory_info().map_err(failed)?;
        // A device without compute or without graphics returns an error for that kind.
        let computing = device.running_compute_processes().unwrap_or_default();
        let drawing = device.running_graphics_processes().unwrap_or_default();
        let mut processes: Vec<GpuProcess> = Vec::new();
        for process in computing.into_iter().chain(drawing) {
            let used = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            // A process that does both is listed twice, each time with all of its bytes.
            if processes.iter().all(|p| p.pid != process.pid) {
                processes.push(GpuProcess { pid: process.pid, used });
            }
        }
        let name = device.name().map_err(failed)?;
        Ok(Self { index, name, used: memory.used, total: memory.total, processes })
    }
}

/// Returns all GPUs that NVML lists.
///
/// # Errors
/// There is no NVML, which comes with the driver, or it fails.
pub fn nvml_devices() -> Result<Vec<NvmlDevice>, SourceError> {
    let count = library().map_err(SourceError::Nvml)?.device_count();
    (0..count.map_err(|e| SourceError::Nvml(e.to_string()))?).map(NvmlDevice::read).collect()
}

/// Returns the library, which is loaded once.
fn library() -> Result<&'static Nvml, String> {
    static LIBRARY: OnceLock<Result<Nvml, String>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        Nvml::init().map_err(|e| match e {
            NvmlError::LibloadingError(e) => {
                format!("there is no NVML, which comes with NVIDIA's driver ({e})")
            }
            e => e.to_string(),
        })
    });
    library.as_ref().map_err(Clone::clone)
}
