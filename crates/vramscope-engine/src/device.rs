//! [`Device`]: where memory comes from.

use thiserror::Error;

/// The page of the CUDA driver, in bytes: it rounds every allocation up to a multiple.
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

    /// The free bytes and the size of the device (`cudaMemGetInfo`).
    ///
    /// # Errors
    /// Where the device does not answer.
    fn memory_info(&self) -> Result<MemoryInfo, DeviceError>;

    /// The device's way to map memory into reserved addresses; `None` where it has none.
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

    /// Records an event on a stream, behind the work that was submitted to it so far (`cudaEventRecord`).
    ///
    /// # Errors
    /// Where the device does not know the stream.
    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError>;

    /// Whether the work before the event is done (`cudaEventQuery`). Once this has returned true, the event no longer exists.
    ///
    /// # Errors
    /// Where the work itself has failed.
    fn event_done(&self, event: EventId) -> Result<bool, DeviceError>;

    /// Waits for the work before the event (`cudaEventSynchronize`). The event then no longer exists.
    ///
    /// # Errors
    /// Where the work itself has failed.
    fn synchronize(&self, event: EventId) -> Result<(), DeviceError>;
}

/// Reserves addresses without memory, and maps memory into them (`cuMemAddressReserve`, `cuMemMap`). Sizes are in bytes.
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

/// An event that was recorded on a stream, by the device's own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// The free bytes and the size of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that nobody uses.
    pub free: u64,
    /// The size of the device, in bytes.
    pub total: u64,
}

impl MemoryInfo {
    /// Bytes in use, with those of other processes and of the driver itself.
    pub fn used(self) -> u64 {
        self.total.saturating_sub(self.free)
    }
}

/// Why a call to a device failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no memory left.
    #[error("the device has no {size} bytes left")]
    OutOfMemory {
        /// Bytes asked for.
        size: u64,
    },
    /// The address was not taken from this device.
    #[error("{address:#x} ({size} bytes) is not memory of this device")]
    UnknownAddress {
        /// The first byte of the range.
        address: u64,
        /// The size of the range, in bytes.
        size: u64,
    },
    /// The device cannot do this at all.
    #[error("{0}")]
    Unsupported(String),
    /// The device's code panicked in the middle of something that the pool had to finish.
    #[error("the device panicked")]
    Panicked,
    /// A call to the driver failed.
    #[error("{call} failed: {why}")]
    Driver {
        /// The driver's function that was called.
        call: &'static str,
        /// The driver's message.
        why: String,
    },
}

/// Calls a device's code and turns a panic into an error, for where something has to be finished after the call.
///
/// # Errors
/// What the device says, or [`DeviceError::Panicked`].
pub fn guarded<T>(call: impl FnOnce() -> Result<T, DeviceError>) -> Result<T, DeviceError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(Err(DeviceError::Panicked))
}
