//! A GPU that is opened at its first use. In the checking mode, it keeps the order of the work on its streams.

use std::sync::{Mutex, MutexGuard, OnceLock};

use vramscope::allocator::{CudaDevice, Device, DeviceError, EventId, MemoryInfo, VirtualMemory};
use vramscope_basics::lock;

use super::order::StreamOrder;

/// A GPU whose context is not used before the program uses it: a context takes some hundred MiB of each GPU.
pub(super) struct LazyDevice {
    ordinal: i32,
    opened: OnceLock<CudaDevice>,
    /// In the checking mode: the order of work on streams.
    order: Option<Mutex<StreamOrder>>,
}

impl LazyDevice {
    pub(super) fn new(ordinal: i32, checks: bool) -> Self {
        Self { ordinal, opened: OnceLock::new(), order: checks.then(Mutex::default) }
    }

    /// The order of work on streams; `None` outside the checking mode.
    pub(super) fn order(&self) -> Option<MutexGuard<'_, StreamOrder>> {
        self.order.as_ref().map(lock)
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
        self.open()?.free(address, size)?;
        if let Some(mut order) = self.order() {
            order.released(address, size);
        }
        Ok(())
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

    fn is_capturing(&self, stream: u64) -> bool {
        self.open().map_or(true, |device| device.is_capturing(stream))
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        self.open()?.synchronize_device()?;
        if let Some(mut order) = self.order() {
            order.all_finished();
        }
        Ok(())
    }

    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        let event = self.open()?.record_event(stream)?;
        if let Some(mut order) = self.order() {
            order.recorded(event, stream);
        }
        Ok(event)
    }

    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        let is_done = self.open()?.event_done(event)?;
        if let Some(mut order) = self.order().filter(|_| is_done) {
            order.finished(event);
        }
        Ok(is_done)
    }

    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        self.open()?.synchronize(event)?;
        if let Some(mut order) = self.order() {
            order.finished(event);
        }
        Ok(())
    }

    fn wait_event(&self, stream: u64, event: EventId) -> Result<(), DeviceError> {
        self.open()?.wait_event(stream, event)?;
        if let Some(mut order) = self.order() {
            order.waits(stream, event);
        }
        Ok(())
    }

    fn discard_event(&self, event: EventId) -> Result<(), DeviceError> {
        self.open()?.discard_event(event)
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
        self.open()?.unmap(address, size, page)?;
        if let Some(mut order) = self.order() {
            order.released(address, size);
        }
        Ok(())
    }
}
