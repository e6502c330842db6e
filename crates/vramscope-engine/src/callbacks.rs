//! Callbacks around requests to the device.

use std::convert::Infallible;

/// Told of every attempt to take memory from the device. No lock is held meanwhile.
pub trait AllocCallbacks {
    /// Why a request may not go on.
    type Refusal: std::error::Error + 'static;

    /// `size` bytes are about to be taken.
    ///
    /// # Errors
    /// Ends the request.
    fn alloc_preprocess(&self, size: u64) -> Result<(), Self::Refusal>;

    /// They were, at `address`; 0 where the device had none.
    fn alloc_postprocess(&self, size: u64, address: u64);
}

/// Nobody is told of what is taken from the device.
#[derive(Debug, Clone, Copy)]
pub struct NoCallbacks;

impl AllocCallbacks for NoCallbacks {
    type Refusal = Infallible;

    fn alloc_preprocess(&self, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn alloc_postprocess(&self, _: u64, _: u64) {}
}
