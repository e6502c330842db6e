//! Errors of allocation requests.

use std::convert::Infallible;

use thiserror::Error;
use vramscope_basics::units::count;

use crate::device::DeviceError;

/// Error of an allocation request. `Refusal` is the error type of the [callbacks](crate::AllocCallbacks); [`Infallible`] without
/// callbacks.
#[derive(Debug, Error)]
pub enum EngineError<Refusal: std::error::Error + 'static = Infallible> {
    /// The device or the limit has no memory left.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The device failed in another way.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A callback refused the request.
    #[error(transparent)]
    Refused(Refusal),
}

/// The device or the limit has no memory left. The message is the same as in CuPy's `OutOfMemoryError`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The device's number.
    pub device_id: i32,
    /// Requested bytes.
    pub requested: u64,
    /// Requested bytes after rounding.
    pub size: u64,
    /// Reserved bytes at the time of the request.
    pub total: u64,
    /// Limit on reserved bytes, if one is set.
    pub limit: Option<u64>,
    /// Free bytes as the device reports them, or `None` if the device did not respond.
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
