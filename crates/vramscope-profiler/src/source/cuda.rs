//! A GPU through the CUDA driver.

use std::sync::Arc;

use vramscope_allocator::{CudaDevice, Device as _};

use super::{
    DeviceMemory, DeviceMemorySource, DeviceSpec, MemorySource, PolledTicker, Reading, SelectError,
    SourceError, SourceInfo, Ticker,
};

/// The bytes of a GPU that all processes use, as counted by the driver (`cudaMemGetInfo`).
///
/// A GPU that shares the host's memory has the numbers of `/proc/meminfo`: the driver does not count memory that the system would release
/// for a request.
///
/// It creates the device's primary context, which takes some hundred MiB, unless the program already has one. `NvmlSource` needs no
/// context.
pub struct CudaSource {
    device: CudaDevice,
    /// Whether the GPU shares the host's memory.
    is_integrated: bool,
    info: SourceInfo,
}

impl CudaSource {
    /// Opens the device that `device` names.
    ///
    /// # Errors
    /// There is no driver or no such device.
    pub fn new<D>(device: D) -> Result<Arc<Self>, SelectError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        let none = |e: vramscope_allocator::DeviceError| SelectError::NoDevices(e.to_string());
        let spec = device.try_into().map_err(Into::into)?;
        let device_id = spec.of(CudaDevice::count().map_err(none)?)?;
        let device = CudaDevice::open(device_id).map_err(none)?;
        let name = device.name().map_err(none)?;
        let is_integrated = device.is_integrated().map_err(none)?;
        Ok(Arc::new(Self { device, is_integrated, info: SourceInfo { name, device_id: Some(device_id) } }))
    }
}

impl MemorySource for CudaSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        if self.is_integrated
            && let Ok(memory) = DeviceMemory::of_host()
        {
            return Ok(memory.into());
        }
        let info = self.device.memory_info()?;
        let (used, source) = (info.used(), DeviceMemorySource::Driver);
        Ok(DeviceMemory { used, free: info.free, total: info.total, source }.into())
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(PolledTicker(self))
    }
}
