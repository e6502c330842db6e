//! Where memory comes from.

use thiserror::Error;

/// The page to which a driver rounds what it gives, in bytes.
pub const DEVICE_PAGE: u64 = 2 << 20;

/// A device that memory is taken from in large pieces.
///
/// A pool calls it while it holds its own locks, so a device must not call the pool. A call that panics
/// loses no memory of the pool.
pub trait Device: Send + Sync {
    /// Takes `size` bytes and returns their address (`cudaMalloc`).
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] makes the pool give back what it can and try again; any other error
    /// ends the request.
    fn allocate(&self, size: u64) -> Result<u64, DeviceError>;

    /// Gives back what [`allocate`](Self::allocate) returned (`cudaFree`).
    ///
    /// # Errors
    /// Where the device refuses; the pool then keeps the memory and goes on using it.
    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// What the device says of its memory (`cudaMemGetInfo`).
    ///
    /// # Errors
    /// Where the device does not answer.
    fn memory_info(&self) -> Result<MemoryInfo, DeviceError>;

    /// Addresses that memory can be mapped into, where the device has them.
    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        None
    }

    /// Whether work on `stream` can be waited for.
    fn knows_stream(&self, stream: u64) -> bool {
        let _ = stream;
        true
    }

    /// Waits for all work on the device (`cudaDeviceSynchronize`).
    ///
    /// # Errors
    /// Where work has failed.
    fn synchronize_device(&self) -> Result<(), DeviceError>;

    /// Marks this point of a stream's work (`cudaEventRecord`).
    ///
    /// # Errors
    /// Where the device does not know the stream.
    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError>;

    /// Whether the work before the mark is done (`cudaEventQuery`). An event that was found done is gone.
    ///
    /// # Errors
    /// Where the work itself has failed.
    fn event_done(&self, event: EventId) -> Result<bool, DeviceError>;

    /// Waits for the work before the mark (`cudaEventSynchronize`). The event is then gone.
    ///
    /// # Errors
    /// Where the work itself has failed.
    fn synchronize(&self, event: EventId) -> Result<(), DeviceError>;
}

/// Addresses without memory, and memory that can be mapped into them (`cuMemAddressReserve`, `cuMemMap`).
pub trait VirtualMemory {
    /// Reserves addresses for `size` bytes.
    ///
    /// # Errors
    /// Where the device has no such range left.
    fn reserve(&self, size: u64) -> Result<u64, DeviceError>;

    /// Gives back a range from [`reserve`](Self::reserve), of which nothing is mapped.
    ///
    /// # Errors
    /// Where the device refuses.
    fn release(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// Maps memory into `size` bytes of a reserved range, in pages of `page` bytes.
    ///
    /// # Errors
    /// Where the device has no memory left; nothing is then mapped.
    fn map(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError>;

    /// Takes the memory from whole pages that were mapped.
    ///
    /// # Errors
    /// Where the device refuses.
    fn unmap(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError>;
}

/// A mark in a stream's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// What a device says of its memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Not in use by anyone.
    pub free: u64,
    /// The whole device.
    pub total: u64,
}

impl MemoryInfo {
    /// Bytes in use, other processes and the driver's own included.
    pub fn used(self) -> u64 {
        self.total.saturating_sub(self.free)
    }
}

/// Why a device did not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no memory left.
    #[error("the device has no {size} bytes left")]
    OutOfMemory {
        /// Bytes asked for.
        size: u64,
    },
    /// The address is not one the device gave.
    #[error("{address:#x} ({size} bytes) is not memory of this device")]
    UnknownAddress {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// The device cannot do this at all.
    #[error("{0}")]
    Unsupported(String),
    /// The device's code panicked where the pool could not let it pass.
    #[error("the device panicked")]
    Panicked,
    /// The driver's own error.
    #[error("{call} failed: {why}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// What it said.
        why: String,
    },
}

/// Calls a device's code where a panic must not pass: in the middle of something that has to be finished.
///
/// # Errors
/// What the device says, or [`DeviceError::Panicked`].
pub fn guarded<T>(call: impl FnOnce() -> Result<T, DeviceError>) -> Result<T, DeviceError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(Err(DeviceError::Panicked))
}
