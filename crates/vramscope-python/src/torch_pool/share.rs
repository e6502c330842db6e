//! The blocks of a framework on one GPU, their bytes, and the framework's limit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use pyo3::exceptions::PyValueError;
use pyo3::{Borrowed, FromPyObject, PyAny, PyErr};
use vramscope::allocator::Allocation;

/// A library that allocates from the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framework {
    Torch,
    Cupy,
}

impl std::fmt::Display for Framework {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Torch => "PyTorch",
            Self::Cupy => "CuPy",
        })
    }
}

impl<'py> FromPyObject<'_, 'py> for Framework {
    type Error = PyErr;

    fn extract(name: Borrowed<'_, 'py, PyAny>) -> Result<Self, PyErr> {
        match name.extract::<&str>()? {
            "torch" => Ok(Self::Torch),
            "cupy" => Ok(Self::Cupy),
            other => {
                Err(PyValueError::new_err(format!("framework must be 'cupy' or 'torch', not '{other}'")))
            }
        }
    }
}

/// The blocks of a framework on one GPU.
#[derive(Default)]
pub(super) struct Share {
    /// Blocks by address.
    pub(super) live: Mutex<HashMap<u64, Allocation>>,
    /// The bytes of all blocks.
    bytes: AtomicU64,
    /// The largest number of bytes; 0 is no limit.
    limit: AtomicU64,
}

impl Share {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Limits the bytes; 0 is no limit. Blocks in use stay.
    pub(super) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the limit as an error if a request exceeds it, before the request takes memory.
    #[inline]
    pub(super) fn check(&self, size: u64) -> Result<(), u64> {
        let limit = self.limit();
        if limit != 0 && self.bytes().saturating_add(size) > limit { Err(limit) } else { Ok(()) }
    }

    /// Adds the bytes of a block. Returns the limit as an error if they exceed it: a block may be larger than its request.
    #[inline]
    pub(super) fn take(&self, size: u64) -> Result<(), u64> {
        let limit = self.limit();
        if limit == 0 {
            self.bytes.fetch_add(size, Ordering::Relaxed);
            return Ok(());
        }
        let within = |bytes: u64| bytes.checked_add(size).filter(|&bytes| bytes <= limit);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).map(drop).map_err(|_| limit)
    }

    /// Subtracts the bytes of a block.
    #[inline]
    pub(super) fn give_back(&self, size: u64) {
        self.bytes.fetch_sub(size, Ordering::Relaxed);
    }
}
