//! GPUs and their processes through NVML, which needs no context.

use std::sync::{Arc, OnceLock};

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;
use vramscope_basics::gpus;
use vramscope_report::Shown;

use super::{
    DeviceMemory, DeviceMemorySource, DeviceSpec, MemorySource, PolledTicker, Reading, SelectError,
    SourceError, SourceInfo, Ticker,
};

/// One GPU through NVML: the bytes used by all processes, and the bytes used by one process.
///
/// NVML numbers devices by their position on the bus and ignores `CUDA_VISIBLE_DEVICES`, except that an entry `MIG-...` of the process
/// selects this MIG instance. In a container NVML may not distinguish processes; the bytes of the process are then `None`.
///
/// On a GPU with MIG instances, the source has the numbers of one instance: the one of `CUDA_VISIBLE_DEVICES`, or the one that the process
/// uses, or the only one. Otherwise it has those of the GPU. A GPU that shares the host's memory has the numbers of `/proc/meminfo`.
pub struct NvmlSource {
    pid: u32,
    index: u32,
    /// The UUID of the MIG instance that `CUDA_VISIBLE_DEVICES` names.
    instance: Option<String>,
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
        let count = nvml.device_count().map_err(none)?;
        if let Some(entry) = visible_instance(pid, spec) {
            let (index, instance) = find_instance(nvml, count, &entry).ok_or_else(|| {
                SelectError::NoDevices(format!(
                    "CUDA_VISIBLE_DEVICES names {}, and NVML lists no such MIG instance, or several",
                    Shown::of(&entry)
                ))
            })?;
            let name = instance.name().map_err(none)?;
            let instance = instance.uuid().map_err(none)?;
            let info = SourceInfo { name, device_id: Some(index as i32) };
            return Ok(Arc::new(Self { pid, index, instance: Some(instance), info }));
        }
        let index = spec.of(count as usize)?;
        let name = nvml.device_by_index(index as u32).and_then(|d| d.name()).map_err(none)?;
        let info = SourceInfo { name, device_id: Some(index) };
        Ok(Arc::new(Self { pid, index: index as u32, instance: None, info }))
    }

    /// Returns the memory of the instance that the process uses, or of the whole GPU, and the bytes of the process.
    fn look(&self) -> Result<(DeviceMemory, Option<u64>), SourceError> {
        let mut devices = NvmlDevice::read_all(self.index)?;
        let is_used = |d: &NvmlDevice| d.processes.iter().any(|p| p.pid == self.pid);
        let position = match &self.instance {
            Some(uuid) => devices.iter().position(|d| d.uuid.as_ref() == Some(uuid)),
            None if devices.len() == 1 => Some(0),
            None => devices.iter().position(is_used),
        };
        let device = match position {
            Some(position) => devices.swap_remove(position),
            None if self.instance.is_some() => {
                return Err(SourceError::Nvml(format!("{} no longer exists", self.info.name)));
            }
            None => NvmlDevice::read(&device_at(self.index)?, self.index, false)?,
        };
        let used = device.processes.iter().find(|p| p.pid == self.pid).and_then(|p| p.used);
        Ok((device.memory, used))
    }
}

impl MemorySource for NvmlSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        let (memory, process_used) = self.look()?;
        Ok(Reading { process_used, ..memory.into() })
    }

    fn is_of_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(PolledTicker(self))
    }
}

/// NVML's data about one GPU, or about one MIG instance of a GPU that is divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NvmlDevice {
    /// The GPU's number, by its position on the bus. Instances of one GPU share it.
    pub index: u32,
    /// The UUID: `GPU-...`, or `MIG-...` of an instance; `None` if NVML does not report it.
    pub uuid: Option<String>,
    /// The device's name, such as `NVIDIA H200`.
    pub name: String,
    /// The memory, and the source of its numbers.
    #[serde(flatten)]
    pub memory: DeviceMemory,
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
    /// Returns the MIG instances of a GPU, or the GPU if it is not divided.
    fn read_all(index: u32) -> Result<Vec<Self>, SourceError> {
        let device = device_at(index)?;
        let instances = instances_of(&device);
        if instances.is_empty() {
            return Ok(vec![Self::read(&device, index, false)?]);
        }
        instances.iter().map(|instance| Self::read(instance, index, true)).collect()
    }

    fn read(device: &Device<'_>, index: u32, is_instance: bool) -> Result<Self, SourceError> {
        let name = device.name().map_err(failed)?;
        let memory = memory_of(device, index, &name, is_instance)?;
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
        Ok(Self { index, uuid: device.uuid().ok(), name, memory, processes })
    }
}

/// Returns the memory of a GPU or an instance. NVML does not support this call on a GPU that shares the host's memory, or returns the
/// total of the system; `/proc/meminfo` then has the memory. On any other GPU, an unsupported call stays an error.
fn memory_of(
    device: &Device<'_>,
    index: u32,
    name: &str,
    is_instance: bool,
) -> Result<DeviceMemory, SourceError> {
    let memory = device.memory_info();
    if gpus::shares_host_memory(name) && matches!(memory, Ok(_) | Err(NvmlError::NotSupported)) {
        return DeviceMemory::of_host()
            .map_err(|e| SourceError::Nvml(format!("the memory of GPU {index} ({name}) is unknown: {e}")));
    }
    match memory {
        Ok(memory) => Ok(DeviceMemory {
            used: memory.used,
            free: memory.free,
            total: memory.total,
            source: if is_instance { DeviceMemorySource::NvmlMig } else { DeviceMemorySource::Nvml },
        }),
        Err(NvmlError::NotSupported) => {
            Err(SourceError::Nvml(format!("NVML does not report the memory of GPU {index} ({name})")))
        }
        Err(e) => Err(failed(e)),
    }
}

/// Returns the MIG instances of a GPU; none if it is not divided.
fn instances_of<'n>(device: &Device<'n>) -> Vec<Device<'n>> {
    const ENABLED: u32 = 1;
    if !device.mig_mode().is_ok_and(|mode| mode.current == ENABLED) {
        return Vec::new();
    }
    // The count is the largest possible number of instances.
    let most = device.mig_device_count().unwrap_or(0);
    (0..most).filter_map(|at| device.mig_device_by_index(at).ok()).collect()
}

/// Returns the only instance whose UUID begins with `entry`, and the index of its GPU.
fn find_instance<'n>(nvml: &'n Nvml, gpus: u32, entry: &str) -> Option<(u32, Device<'n>)> {
    let has_name = |device: &Device<'_>| {
        let uuid = device.uuid().unwrap_or_default();
        uuid.get(..entry.len()).is_some_and(|start| start.eq_ignore_ascii_case(entry))
    };
    let of_gpu = |index| {
        let instances = nvml.device_by_index(index).map(|gpu| instances_of(&gpu)).unwrap_or_default();
        instances.into_iter().map(move |instance| (index, instance))
    };
    let mut found = (0..gpus).flat_map(of_gpu).filter(|(_, instance)| has_name(instance));
    found.next().filter(|_| found.next().is_none())
}

/// Returns the entry of `CUDA_VISIBLE_DEVICES` of process `pid` for this device, if it names a MIG instance. The variable of another
/// process is the one with which it started.
fn visible_instance(pid: u32, device: DeviceSpec) -> Option<String> {
    let position = match device {
        DeviceSpec::Current => 0,
        DeviceSpec::Index(index) => usize::try_from(index).ok()?,
    };
    let listed = if pid == std::process::id() {
        std::env::var("CUDA_VISIBLE_DEVICES").ok()?
    } else {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let of = |entry: &[u8]| entry.strip_prefix(b"CUDA_VISIBLE_DEVICES=").map(<[u8]>::to_vec);
        String::from_utf8(environment.split(|&byte| byte == 0).find_map(of)?).ok()?
    };
    let entry = listed.split(',').nth(position)?.trim();
    entry.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("MIG-")).then(|| entry.to_owned())
}

/// Whether `CUDA_VISIBLE_DEVICES` of process `pid` begins with a MIG instance, so that it is the process' first device.
pub fn starts_on_mig_instance(pid: u32) -> bool {
    visible_instance(pid, DeviceSpec::Current).is_some()
}

/// Returns all GPUs that NVML lists. A GPU that is divided into MIG instances is listed as its instances.
///
/// # Errors
/// There is no NVML, which comes with the driver, or it fails.
pub fn nvml_devices() -> Result<Vec<NvmlDevice>, SourceError> {
    let count = library().map_err(SourceError::Nvml)?.device_count();
    let mut devices = Vec::new();
    for index in 0..count.map_err(failed)? {
        devices.extend(NvmlDevice::read_all(index)?);
    }
    Ok(devices)
}

fn device_at(index: u32) -> Result<Device<'static>, SourceError> {
    library().map_err(SourceError::Nvml)?.device_by_index(index).map_err(failed)
}

fn failed(e: NvmlError) -> SourceError {
    SourceError::Nvml(e.to_string())
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
