//! Callbacks around requests to the device.

use std::convert::Infallible;

/// Called before and after every attempt to take memory from the device, with no lock held.
pub trait AllocCallbacks {
    /// Why a request may not go on.
    type Refusal: std::error::Error + 'static;

    /// Called before `size` bytes are taken.
    ///
    /// # Errors
    /// Refuses: the request fails with [`AllocError::Refused`](crate::AllocError::Refused).
    fn alloc_preprocess(&self, size: u64) -> Result<(), Self::Refusal>;

    /// Called after `size` bytes were taken at `address`; the address is 0 where the device had no memory.
    fn alloc_postprocess(&self, size: u64, address: u64);
}

/// No callbacks.
#[derive(Debug, Clone, Copy)]
pub struct NoCallbacks;

impl AllocCallbacks for NoCallbacks {
    type Refusal = Infallible;

    fn alloc_preprocess(&self, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn alloc_postprocess(&self, _: u64, _: u64) {}
}
