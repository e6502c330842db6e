//! Host memory as a device.
#![allow(unsafe_code, reason = "takes raw memory from the system's allocator")]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::Mutex;

use vramscope_basics::lock;
use vramscope_engine::{Device, DeviceError, EventId, MemoryInfo};

/// Alignment of every allocation, in bytes; `cudaMalloc` aligns to at least 256.
const ALIGNMENT: usize = 512;

/// Host memory up to a capacity, for pools on machines without a GPU.
///
/// A call that works on host memory has finished when it returns, so the device never waits for a stream.
#[derive(Debug)]
pub struct HostDevice {
    capacity: u64,
    allocations: Mutex<HostAllocations>,
}

#[derive(Debug, Default)]
struct HostAllocations {
    bytes: u64,
    /// Memory returned by `alloc`: address to requested bytes and layout. `free` accepts only these addresses.
    layouts: BTreeMap<u64, (u64, Layout)>,
}

impl HostDevice {
    /// Creates a device with `capacity` bytes.
    pub fn with_capacity(capacity: u64) -> Self {
        Self { capacity, allocations: Mutex::default() }
    }
}

impl Device for HostDevice {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        let out_of_memory = DeviceError::OutOfMemory { size };
        let mut allocations = lock(&self.allocations);
        if size > self.capacity - allocations.bytes {
            return Err(out_of_memory);
        }
        let layout =
            usize::try_from(size).ok().and_then(|n| Layout::from_size_align(n.max(1), ALIGNMENT).ok());
        let layout = layout.ok_or_else(|| out_of_memory.clone())?;
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(out_of_memory);
        }
        let address = start.expose_provenance() as u64;
        allocations.bytes += size;
        allocations.layouts.insert(address, (size, layout));
        Ok(address)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let mut allocations = lock(&self.allocations);
        let (bytes, layout) =
            allocations.layouts.remove(&address).ok_or(DeviceError::UnknownAddress { address, size })?;
        allocations.bytes -= bytes;
        // SAFETY: `alloc` returned this address with this layout, and it was in the table until now.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address as usize), layout) };
        Ok(())
    }

    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        Ok(MemoryInfo { free: self.capacity - lock(&self.allocations).bytes, total: self.capacity })
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn record_event(&self, _stream: u64) -> Result<EventId, DeviceError> {
        Ok(EventId(0))
    }

    fn event_done(&self, _event: EventId) -> Result<bool, DeviceError> {
        Ok(true)
    }

    fn synchronize(&self, _event: EventId) -> Result<(), DeviceError> {
        Ok(())
    }

    fn wait_event(&self, _stream: u64, _event: EventId) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Drop for HostDevice {
    fn drop(&mut self) {
        let allocations = self.allocations.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (&address, &(_, layout)) in &allocations.layouts {
            // SAFETY: as in `free`; each entry is visited once, and the table is dropped with the device.
            unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address as usize), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_bounds_what_is_taken_and_unknown_addresses_are_refused() {
        let device = HostDevice::with_capacity(4096);
        let a = device.allocate(4096).unwrap();
        assert_eq!(a % 512, 0);
        assert_eq!(device.allocate(1), Err(DeviceError::OutOfMemory { size: 1 }));
        assert_eq!(
            device.free(a + 512, 512),
            Err(DeviceError::UnknownAddress { address: a + 512, size: 512 })
        );
        device.free(a, 4096).unwrap();
        assert_eq!(device.free(a, 4096), Err(DeviceError::UnknownAddress { address: a, size: 4096 }));
        assert_eq!(device.memory_info(), Ok(MemoryInfo { free: 4096, total: 4096 }));
    }
}
