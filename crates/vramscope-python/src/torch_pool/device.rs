//! A GPU that is opened at its first use.

use std::sync::OnceLock;

use vramscope::allocator::{CudaDevice, Device, DeviceError, EventId, MemoryInfo, VirtualMemory};

/// A GPU whose context is not used before the program uses it: a context takes some hundred MiB of each GPU.
pub(super) struct LazyDevice {
    ordinal: i32,
    opened: OnceLock<CudaDevice>,
}

impl LazyDevice {
    pub(super) fn new(ordinal: i32) -> Self {
        Self { ordinal, opened: OnceLock::new() }
    }

    /// Returns the device, and opens it if it is not open.
    pub(super) fn open(&self) -> Result<&CudaDevice, DeviceError> {
        match self.opened.get() {
            Some(device) => Ok(device),
            None => {
                let device = CudaDevice::open(self.ordinal)?;
                // If another thread was faster, its device is used.
                Ok(self.opened.get_or_init(|| device))
            }
        }
    }
}

impl Device for LazyDevice {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        self.open()?.allocate(size)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.open()?.free(address, size)
    }

    /// Does not open the device, because statistics ask for it too.
    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        let unused = || DeviceError::Unsupported("the program has not used this device".to_owned());
        self.opened.get().ok_or_else(unused)?.memory_info()
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }

    fn knows_stream(&self, stream: u64) -> bool {
        self.open().is_ok_and(|device| device.knows_stream(stream))
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        self.open()?.synchronize_device()
    }

    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        self.open()?.record_event(stream)
    }

    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        self.open()?.event_done(event)
    }

    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        self.open()?.synchronize(event)
    }
}

impl VirtualMemory for LazyDevice {
    fn reserve(&self, size: u64) -> Result<u64, DeviceError> {
        self.open()?.reserve(size)
    }

    fn release(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        VirtualMemory::release(self.open()?, address, size)
    }

    fn map(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError> {
        self.open()?.map(address, size, page)
    }

    fn unmap(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError> {
        self.open()?.unmap(address, size, page)
    }
}
