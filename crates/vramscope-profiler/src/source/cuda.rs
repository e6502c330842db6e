//! A GPU through the CUDA driver.

use std::sync::Arc;

use vramscope_allocator::{CudaDevice, Device as _};

use super::{DeviceSpec, MemorySource, PolledTicker, Reading, SelectError, SourceError, SourceInfo, Ticker};

/// The bytes of a GPU that all processes use, as counted by the driver (`cudaMemGetInfo`).
///
/// It creates the device's primary context, which takes some hundred MiB, unless the program already has one. `NvmlSource` needs no
/// context.
pub struct CudaSource {
    device: CudaDevice,
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
        Ok(Arc::new(Self { device, info: SourceInfo { name, device_id: Some(device_id) } }))
    }
}

impl MemorySource for CudaSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        let info = self.device.memory_info()?;
        Ok(Reading { device_used: Some(info.used()), device_total: Some(info.total), ..Reading::default() })
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(PolledTicker(self))
    }
}
