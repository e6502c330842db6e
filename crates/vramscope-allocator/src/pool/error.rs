//! Why a request to a pool was not served.

use thiserror::Error;
use vramscope_engine::{DeviceError, OutOfMemory};

use crate::hooks::HookError;

/// Why a request was not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// There is no memory left, on the device or within the limit.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A hook's preprocess callback refused.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The device failed in another way.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The pool is of the process that this one was forked from.
    #[error("the pool is of the process that this one was forked from; make another after the fork")]
    Forked,
}

impl From<vramscope_engine::AllocError<HookError>> for AllocError {
    fn from(error: vramscope_engine::AllocError<HookError>) -> Self {
        match error {
            vramscope_engine::AllocError::OutOfMemory(e) => Self::OutOfMemory(e),
            vramscope_engine::AllocError::Device(e) => Self::Device(e),
            vramscope_engine::AllocError::Refused(e) => Self::Hook(e),
        }
    }
}
