//! The pool as CuPy's allocator: `vramscope.cupy.use_pool`. If PyTorch uses the pool too, both share its memory.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use vramscope::allocator::{DevicePool, Limit, Policy};

use super::failure::Failure;
use super::functions::caught;
use super::pool::{POOL, Pool, StreamKey};
use super::share::{Framework, Share};
use super::throw::Kind;
use crate::error::{OutOfMemoryError, VramscopeError};

/// The pool of this process, as CuPy uses it. Sizes are in bytes.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct CupyPool;

#[pymethods]
impl CupyPool {
    /// Shares the pool of this process on this number of GPUs, or creates one with CuPy's rules. The checking mode is that of the existing
    /// pool.
    #[new]
    fn new(devices: i32, check: bool) -> PyResult<Self> {
        let pool = POOL.get_or_init(|| Pool::new(Policy::cupy(), None, check));
        pool.init(devices).map_err(failed)?;
        Ok(Self)
    }

    /// Allocates a block on a stream and returns its address.
    #[staticmethod]
    fn malloc(py: Python<'_>, size: u64, device: i32, stream: u64) -> PyResult<u64> {
        let pool = POOL.get().ok_or_else(|| failed(Failure::no_pool()))?;
        let served = py.detach(|| {
            // CuPy destroys its streams. A stream that PyTorch does not use gets no memory of other streams.
            caught(|| pool.malloc(Framework::Cupy, size, device, StreamKey(stream), |_| ()))
        });
        served.map_err(|Failure { kind, text }| match kind {
            Kind::OutOfMemory => OutOfMemoryError::new_err(text),
            Kind::Runtime => VramscopeError::new_err(text),
        })
    }

    /// Frees a block. Unknown addresses are ignored.
    #[staticmethod]
    fn free(py: Python<'_>, address: u64, device: i32) {
        if let Some(pool) = POOL.get() {
            let free = || {
                pool.free(Framework::Cupy, address, device);
                Ok(())
            };
            // CuPy frees in destructors, which report no error.
            py.detach(|| caught(free).ok());
        }
    }

    /// The bytes in use by a framework.
    #[staticmethod]
    fn bytes_of(framework: Framework, device: i32) -> PyResult<u64> {
        share(framework, device).map(Share::bytes)
    }

    /// Limits the bytes in use by a framework; 0 is no limit.
    #[staticmethod]
    fn set_limit_of(framework: Framework, device: i32, size: u64) -> PyResult<()> {
        share(framework, device).map(|share| share.set_limit(size))
    }

    /// The limit of a framework in bytes; 0 is no limit.
    #[staticmethod]
    fn get_limit_of(framework: Framework, device: i32) -> PyResult<u64> {
        share(framework, device).map(Share::limit)
    }

    /// The bytes in use, the reserved bytes, and the number of free blocks.
    #[staticmethod]
    fn counts(device: i32) -> PyResult<(u64, u64, u64)> {
        on(device, |pool| Ok((pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks())))
    }

    /// The bytes of all blocks allocated so far, and the bytes taken from the devices so far, on all devices.
    #[staticmethod]
    fn taken() -> (u64, u64) {
        let devices = POOL.get().and_then(Pool::whole).map_or(&[][..], |whole| whole.pool.devices());
        devices.iter().map(DevicePool::statistics).fold((0, 0), |(used, acquired), statistics| {
            (used + statistics.allocated.allocated, acquired + statistics.reserved.allocated)
        })
    }

    /// Releases free memory: of one stream, or of all.
    #[staticmethod]
    fn free_all_blocks(py: Python<'_>, device: i32, stream: Option<u64>) -> PyResult<()> {
        on(device, |pool| {
            let released = py.detach(|| match stream {
                Some(stream) => pool.free_all_blocks_of(stream),
                None => pool.free_all_blocks(),
            });
            released.map_err(|error| VramscopeError::new_err(error.to_string()))
        })
    }

    /// Limits the reserved bytes of all frameworks; 0 is no limit.
    #[staticmethod]
    fn set_limit(device: i32, size: u64) -> PyResult<()> {
        on(device, |pool| {
            pool.set_limit(Limit::Bytes(size)).map_err(|error| PyValueError::new_err(error.to_string()))
        })
    }

    /// The limit in bytes; 0 is no limit.
    #[staticmethod]
    fn get_limit(device: i32) -> PyResult<u64> {
        on(device, |pool| Ok(pool.get_limit()))
    }
}

/// Calls a function with the pool of a GPU.
fn on<T>(device: i32, call: impl FnOnce(&DevicePool) -> PyResult<T>) -> PyResult<T> {
    let part = POOL.get().and_then(Pool::whole).ok_or_else(|| failed(Failure::no_pool()))?;
    call(part.device(device).ok_or_else(|| no_gpu(device))?)
}

/// The blocks of a framework on a GPU.
fn share(framework: Framework, device: i32) -> PyResult<&'static Share> {
    let pool = POOL.get().ok_or_else(|| failed(Failure::no_pool()))?;
    pool.share(framework, device).ok_or_else(|| no_gpu(device))
}

fn no_gpu(device: i32) -> PyErr {
    VramscopeError::new_err(format!("the pool has no GPU {device}"))
}

fn failed(Failure { text, .. }: Failure) -> PyErr {
    VramscopeError::new_err(text)
}
