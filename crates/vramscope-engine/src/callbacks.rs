//! Callbacks around requests to the device.

use std::convert::Infallible;

/// Callbacks before and after every attempt to take memory from the device. No lock is held during a call.
pub trait AllocCallbacks {
    /// Error with which a callback refuses a request.
    type Refusal: std::error::Error + 'static;

    /// Called before `size` bytes are taken from the device.
    ///
    /// # Errors
    /// An error makes the request fail with [`EngineError::Refused`](crate::EngineError::Refused).
    fn alloc_preprocess(&self, size: u64) -> Result<(), Self::Refusal>;

    /// Called after an attempt to take `size` bytes. `address` is 0 if the device was out of memory.
    fn alloc_postprocess(&self, size: u64, address: u64);
}

/// Callbacks that do nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoCallbacks;

impl AllocCallbacks for NoCallbacks {
    type Refusal = Infallible;

    fn alloc_preprocess(&self, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn alloc_postprocess(&self, _: u64, _: u64) {}
}
