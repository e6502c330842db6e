//! Why a request was not served.

use std::convert::Infallible;

use thiserror::Error;
use vramscope_basics::units::count;

use crate::device::DeviceError;

/// Why a request was not served. `Refusal` is the error of the [callbacks](crate::AllocCallbacks); without callbacks there is
/// none.
#[derive(Debug, Error)]
pub enum AllocError<Refusal: std::error::Error + 'static = Infallible> {
    /// There is no memory left, on the device or within the limit.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The device failed in another way.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A callback refused.
    #[error(transparent)]
    Refused(Refusal),
}

/// There is no memory left, on the device or within the limit. The message is that of CuPy's `OutOfMemoryError`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The number of the device.
    pub device_id: i32,
    /// Bytes that were asked for.
    pub requested: u64,
    /// Bytes that were asked for, after rounding.
    pub size: u64,
    /// Bytes reserved at the time.
    pub total: u64,
    /// The limit on reserved bytes, where one is set.
    pub limit: Option<u64>,
    /// Bytes the device said were free; `None` where it did not answer.
    pub device_free: Option<u64>,
}

impl std::error::Error for OutOfMemory {}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Out of memory allocating {} bytes", count(self.size))?;
        write!(f, " (allocated so far: {} bytes", count(self.total))?;
        if let Some(limit) = self.limit {
            write!(f, ", limit set to: {} bytes", count(limit))?;
        }
        write!(f, ").")
    }
}
