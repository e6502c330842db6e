//! [`Device`]: the source of memory.

use thiserror::Error;

/// Page size of the CUDA driver in bytes. The driver rounds every allocation up to a multiple.
pub const DEVICE_PAGE: u64 = 2 << 20;

/// A device from which memory is taken in large ranges.
///
/// A pool calls the device while it holds locks, so a device must not call the pool. If a call panics, the pool loses no memory.
pub trait Device: Send + Sync {
    /// Allocates `size` bytes and returns their address (`cudaMalloc`).
    ///
    /// # Errors
    /// After [`DeviceError::OutOfMemory`], the pool releases cached memory and tries again. Any other error ends the request.
    fn allocate(&self, size: u64) -> Result<u64, DeviceError>;

    /// Frees memory returned by [`allocate`](Self::allocate) (`cudaFree`).
    ///
    /// # Errors
    /// If the device refuses. The pool then keeps the memory and continues to use it.
    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// Returns the free bytes and the size of the device (`cudaMemGetInfo`).
    ///
    /// # Errors
    /// If the device does not respond.
    fn memory_info(&self) -> Result<MemoryInfo, DeviceError>;

    /// Returns the interface to map memory into reserved addresses, or `None` if the device has none.
    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        None
    }

    /// Whether the device can wait for work on `stream`.
    fn knows_stream(&self, stream: u64) -> bool {
        let _ = stream;
        true
    }

    /// Whether work on `stream` is captured into a CUDA graph, or this is not known (`cudaStreamIsCapturing`).
    fn is_capturing(&self, stream: u64) -> bool {
        let _ = stream;
        false
    }

    /// Waits for all work on the device (`cudaDeviceSynchronize`).
    ///
    /// # Errors
    /// If work failed.
    fn synchronize_device(&self) -> Result<(), DeviceError>;

    /// Records an event on a stream, after all work submitted to it so far (`cudaEventRecord`).
    ///
    /// # Errors
    /// If the device does not know the stream.
    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError>;

    /// Whether the work before the event is complete (`cudaEventQuery`). Returning true destroys the event.
    ///
    /// # Errors
    /// If the work itself failed.
    fn event_done(&self, event: EventId) -> Result<bool, DeviceError>;

    /// Waits for the work before the event (`cudaEventSynchronize`), and destroys the event.
    ///
    /// # Errors
    /// If the work itself failed.
    fn synchronize(&self, event: EventId) -> Result<(), DeviceError>;

    /// Makes all later work on `stream` wait for the work before the event (`cudaStreamWaitEvent`). The caller does not wait, and the event
    /// stays.
    ///
    /// # Errors
    /// If the device does not know the stream or the event, or has no such call. A pool then gives the stream other memory.
    fn wait_event(&self, stream: u64, event: EventId) -> Result<(), DeviceError> {
        let _ = (stream, event);
        Err(DeviceError::Unsupported("this device cannot make a stream wait for another one".to_owned()))
    }

    /// Destroys an event that may not be complete (`cudaEventDestroy`). Work that waits for it still does.
    ///
    /// # Errors
    /// If the device refuses.
    fn discard_event(&self, event: EventId) -> Result<(), DeviceError> {
        self.event_done(event).map(drop)
    }
}

/// Reserves address ranges and maps memory into them (`cuMemAddressReserve`, `cuMemMap`). Sizes are in bytes.
pub trait VirtualMemory {
    /// Reserves addresses for `size` bytes.
    ///
    /// # Errors
    /// If the device has no free address range of this size.
    fn reserve(&self, size: u64) -> Result<u64, DeviceError>;

    /// Releases a range from [`reserve`](Self::reserve), in which nothing is mapped.
    ///
    /// # Errors
    /// If the device refuses.
    fn release(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// Maps memory into `size` bytes of a reserved range, in pages of `page` bytes.
    ///
    /// # Errors
    /// If the device is out of memory. Nothing is mapped then.
    fn map(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError>;

    /// Unmaps whole pages.
    ///
    /// # Errors
    /// If the device refuses.
    fn unmap(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError>;
}

/// An event recorded on a stream, by the device's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// The free bytes and the size of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that no process uses.
    pub free: u64,
    /// Size of the device in bytes.
    pub total: u64,
}

impl MemoryInfo {
    /// Returns the bytes in use, including other processes and the driver.
    pub fn used(self) -> u64 {
        self.total.saturating_sub(self.free)
    }
}

/// Error of a call to a device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device is out of memory.
    #[error("the device is out of memory: {size} bytes requested")]
    OutOfMemory {
        /// Requested bytes.
        size: u64,
    },
    /// The address does not belong to this device.
    #[error("{address:#x} ({size} bytes) is not memory of this device")]
    UnknownAddress {
        /// First byte of the range.
        address: u64,
        /// Size of the range in bytes.
        size: u64,
    },
    /// The device does not support this operation.
    #[error("{0}")]
    Unsupported(String),
    /// The device's code panicked during an operation that the pool had to finish.
    #[error("the device panicked")]
    Panicked,
    /// A call to the driver failed.
    #[error("{call} failed: {why}")]
    Driver {
        /// The called function of the driver.
        call: &'static str,
        /// The driver's message.
        why: String,
    },
}

/// Calls a device's code and turns a panic into an error, for callers that must finish an operation after the call.
///
/// # Errors
/// The error of the call, or [`DeviceError::Panicked`].
pub fn guarded<T>(call: impl FnOnce() -> Result<T, DeviceError>) -> Result<T, DeviceError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(Err(DeviceError::Panicked))
}
