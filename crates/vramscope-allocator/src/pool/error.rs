//! Errors of requests to a pool.

use thiserror::Error;
use vramscope_engine::{DeviceError, OutOfMemory};

use crate::hooks::HookError;

/// The reason why a request failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// No memory is left, on the device or within the limit.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A hook's preprocess callback refused the request.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The device failed in another way.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The pool belongs to the process that this process was forked from.
    #[error("the pool belongs to the parent process; create another pool after the fork")]
    Forked,
}

impl From<vramscope_engine::EngineError<HookError>> for AllocError {
    fn from(error: vramscope_engine::EngineError<HookError>) -> Self {
        match error {
            vramscope_engine::EngineError::OutOfMemory(e) => Self::OutOfMemory(e),
            vramscope_engine::EngineError::Device(e) => Self::Device(e),
            vramscope_engine::EngineError::Refused(e) => Self::Hook(e),
        }
    }
}
