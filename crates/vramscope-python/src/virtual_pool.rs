//! CuPy's pool without CuPy and without a GPU: the rules of vramscope's engine on virtual addresses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use vramscope::allocator::{self, AllocError, Allocation, Limit, Policy};
use vramscope::engine::Device as _;
use vramscope_basics::lock;

use crate::arguments;
use crate::error::{OutOfMemoryError, VramscopeError};

/// A device with this number of bytes. It has addresses, but no memory.
///
/// It returns the lowest free addresses, in pages of 2 MiB.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct VirtualDevice {
    device: Arc<allocator::VirtualDevice>,
}

#[pymethods]
impl VirtualDevice {
    #[new]
    fn new(#[pyo3(from_py_with = arguments::device_bytes)] capacity: u64) -> Self {
        Self { device: Arc::new(allocator::VirtualDevice::with_capacity(capacity)) }
    }

    /// Allocates `size` bytes and returns their address.
    fn malloc(&self, #[pyo3(from_py_with = arguments::size_bytes)] size: u64) -> PyResult<u64> {
        self.device.allocate(size).map_err(|error| OutOfMemoryError::new_err(error.to_string()))
    }

    /// Frees an address from `malloc`.
    fn free(&self, #[pyo3(from_py_with = arguments::address)] address: u64) -> PyResult<()> {
        self.device.free(address, 0).map_err(|error| VramscopeError::new_err(error.to_string()))
    }

    /// Free bytes, in whole pages.
    fn free_bytes(&self) -> PyResult<u64> {
        let info = self.device.memory_info().map_err(|error| VramscopeError::new_err(error.to_string()))?;
        Ok(info.free)
    }
}

/// CuPy's `MemoryPool` on a `VirtualDevice`: the same blocks, counters and errors, without CuPy.
///
/// `malloc` returns an address, and `free` takes it.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct VirtualPool {
    pool: allocator::MemoryPool,
    held: Mutex<HashMap<u64, Allocation>>,
}

#[pymethods]
impl VirtualPool {
    #[new]
    fn new(device: &VirtualDevice) -> PyResult<Self> {
        let pool = allocator::MemoryPool::new(&Policy::cupy(), vec![device.device.clone()])
            .map_err(|error| VramscopeError::new_err(error.to_string()))?;
        Ok(Self { pool, held: Mutex::default() })
    }

    /// Allocates `size` bytes for a stream, rounded up to a multiple of 512, and returns their address; 0 for a `size` of 0.
    #[pyo3(signature = (size, stream=0))]
    fn malloc(
        &self,
        #[pyo3(from_py_with = arguments::size_bytes)] size: u64,
        #[pyo3(from_py_with = arguments::stream)] stream: u64,
    ) -> PyResult<u64> {
        if size == 0 {
            return Ok(0);
        }
        let block = self.pool.malloc_on(stream, size).map_err(|error| match error {
            AllocError::OutOfMemory(error) => OutOfMemoryError::new_err(error.to_string()),
            error => VramscopeError::new_err(error.to_string()),
        })?;
        let address = block.address();
        lock(&self.held).insert(address, block);
        Ok(address)
    }

    /// Frees a block to the pool.
    fn free(&self, #[pyo3(from_py_with = arguments::address)] address: u64) -> PyResult<()> {
        // The block is dropped after the lock is released.
        let block = lock(&self.held).remove(&address);
        match block {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(format!("no block at {address:#x}"))),
        }
    }

    /// Frees whole free segments to the device: those of one stream, or all.
    #[pyo3(signature = (stream=None))]
    fn free_all_blocks(
        &self,
        #[pyo3(from_py_with = arguments::any_stream)] stream: Option<u64>,
    ) -> PyResult<()> {
        match stream {
            Some(stream) => self.pool.free_all_blocks_of(stream),
            None => self.pool.free_all_blocks(),
        }
        .map_err(|error| VramscopeError::new_err(error.to_string()))
    }

    /// Bytes in use.
    fn used_bytes(&self) -> u64 {
        self.pool.used_bytes()
    }

    /// Reserved bytes that are not in use.
    fn free_bytes(&self) -> u64 {
        self.pool.free_bytes()
    }

    /// Reserved bytes.
    fn total_bytes(&self) -> u64 {
        self.pool.total_bytes()
    }

    /// The number of free blocks.
    fn n_free_blocks(&self) -> u64 {
        self.pool.n_free_blocks()
    }

    /// Limits the reserved bytes, in bytes or as a fraction of the device. No limit if both are omitted or 0.
    #[pyo3(signature = (size=None, fraction=None))]
    fn set_limit(
        &self,
        #[pyo3(from_py_with = arguments::limit_bytes)] size: Option<i64>,
        fraction: Option<f64>,
    ) -> PyResult<()> {
        let limit = match (size, fraction) {
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("size and fraction cannot be specified at one time"));
            }
            (None | Some(0), None) => Limit::None,
            (Some(size), None) => Limit::Bytes(
                u64::try_from(size)
                    .map_err(|_| PyValueError::new_err(format!("memory limit size out of range: {size}")))?,
            ),
            (None, Some(fraction)) => Limit::Fraction(fraction),
        };
        self.pool.set_limit(limit).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The limit in bytes; 0 for no limit.
    fn get_limit(&self) -> u64 {
        self.pool.get_limit()
    }
}
