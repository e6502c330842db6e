//! The functions of PyTorch's interface `CUDAPluggableAllocator`, by address.
#![allow(unsafe_code, reason = "functions that PyTorch calls, with its pointers and C++ objects")]

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use vramscope::trace::PoolId;

use super::failure::Failure;
use super::filter::StreamFilter;
use super::hooks::Raised;
use super::pool::{POOL, StreamKey};
use super::share::Framework;
use super::throw::{Kind, throw};

/// Name of a setter of `torch._C._cuda_CUDAAllocator`, or `malloc` and `free`, and the address of our function for it.
pub(super) fn addresses() -> [(&'static str, usize); 10] {
    [
        ("malloc", malloc as *const () as usize),
        ("free", free as *const () as usize),
        ("set_init_fn", init as *const () as usize),
        ("set_reset_fn", empty_cache as *const () as usize),
        ("set_memory_fraction_fn", set_memory_fraction as *const () as usize),
        ("set_base_alloc_fn", base_allocation as *const () as usize),
        ("set_record_stream_fn", record_stream as *const () as usize),
        ("set_begin_allocate_to_pool", begin_allocate_to_pool as *const () as usize),
        ("set_end_allocate_to_pool_fn", end_allocate_to_pool as *const () as usize),
        ("set_release_pool", release_pool as *const () as usize),
    ]
}

/// Throws the failure of a call, or that of a panic, to PyTorch.
fn raise<T>(call: impl FnOnce() -> Result<T, Failure>) -> T {
    match caught(call) {
        Ok(value) => value,
        Err(failure) => throw(failure.kind, &failure.text),
    }
}

/// Returns the failure of a call, or that of a panic.
pub(super) fn caught<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Failure { kind: Kind::Runtime, text: panic_text(panic.as_ref()) }))
}

/// What ended a call: an exception of a hook, which has its text, or a fault.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic.downcast_ref::<Raised>().map_or_else(
        || "vramscope's pool panicked; please report this".to_owned(),
        |Raised(text)| text.clone(),
    )
}

/// Frees and similar calls have no error to report: PyTorch calls them in destructors.
fn quietly(call: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(call)).ok();
}

/// `void* alloc_fn(size_t size, int device, cudaStream_t stream)`.
extern "C-unwind" fn malloc(size: usize, device: c_int, stream: *mut c_void) -> *mut c_void {
    let stream = StreamKey::of(stream);
    let address = raise(|| {
        POOL.get().map_or(Err(Failure::no_pool()), |pool| {
            pool.malloc(Framework::Torch, size as u64, device, stream, |device| {
                // SAFETY: PyTorch passes a live stream of this device. It destroys none of its own; a stream of another library must
                // outlive a plan whose streams share memory, as `use_pool` says.
                unsafe { device.adopt_stream(stream.0) }
            })
        })
    });
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// `void free_fn(void* ptr, size_t size, int device, cudaStream_t stream)`.
extern "C" fn free(address: *mut c_void, _size: usize, device: c_int, _stream: *mut c_void) {
    quietly(|| {
        if let Some(pool) = POOL.get() {
            pool.free(Framework::Torch, address.addr() as u64, device);
        }
    });
}

/// `void init_fn(int device_count)`.
extern "C-unwind" fn init(devices: c_int) {
    raise(|| POOL.get().map_or(Ok(()), |pool| pool.init(devices)));
}

/// `void reset_fn()`: `torch.cuda.empty_cache`.
extern "C-unwind" fn empty_cache() {
    raise(|| POOL.get().map_or(Ok(()), |pool| pool.empty_cache()));
}

/// `void memory_fraction_fn(double fraction, int device)`.
extern "C-unwind" fn set_memory_fraction(fraction: f64, device: c_int) {
    raise(|| POOL.get().map_or(Ok(()), |pool| pool.set_memory_fraction(fraction, device)));
}

/// `void* base_alloc_fn(void* ptr, size_t* size)`: the segment of an address.
extern "C" fn base_allocation(address: *mut c_void, size: *mut usize) -> *mut c_void {
    let mut found = None;
    quietly(|| found = POOL.get().and_then(|pool| pool.segment_at(address.addr() as u64)));
    let Some((start, bytes)) = found else { return address };
    // SAFETY: PyTorch passes null, or a pointer to a number that it reads afterwards.
    if let Some(size) = unsafe { size.as_mut() } {
        *size = bytes as usize;
    }
    std::ptr::with_exposed_provenance_mut(start as usize)
}

/// `void record_stream_fn(void* ptr, cudaStream_t stream)`.
extern "C-unwind" fn record_stream(address: *mut c_void, stream: *mut c_void) {
    let stream = StreamKey::of(stream);
    raise(|| {
        let Some(pool) = POOL.get() else { return Ok(()) };
        pool.record_stream(address.addr() as u64, stream, |device| {
            // SAFETY: PyTorch passes a live stream of this device. It destroys none of its own; a stream of another library must outlive
            // the memory that it uses, as under PyTorch's own allocator.
            unsafe { device.adopt_stream(stream.0) }
        })
    });
}

/// `c10::cuda::MempoolId_t`, a `std::pair` of two numbers.
#[repr(C)]
#[derive(Clone, Copy)]
struct PoolIdPair(u64, u64);

impl From<PoolIdPair> for PoolId {
    fn from(PoolIdPair(graph, user): PoolIdPair) -> Self {
        Self(graph, user)
    }
}

/// `void begin(int device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter)`. The function is passed by reference.
extern "C-unwind" fn begin_allocate_to_pool(device: c_int, id: PoolIdPair, filter: *const c_void) {
    raise(|| {
        let Some(pool) = POOL.get() else { return Ok(()) };
        // SAFETY: PyTorch passes a live `std::function<bool(cudaStream_t)>`.
        let filter = unsafe { StreamFilter::copy_of(filter) };
        pool.begin_allocate_to_pool(device, id.into(), filter)
    });
}

/// `void end(int device, MempoolId_t pool)`.
extern "C-unwind" fn end_allocate_to_pool(device: c_int, id: PoolIdPair) {
    raise(|| POOL.get().map_or(Ok(()), |pool| pool.end_allocate_to_pool(device, id.into())));
}

/// `void release(int device, MempoolId_t pool)`.
extern "C" fn release_pool(device: c_int, id: PoolIdPair) {
    quietly(|| {
        if let Some(pool) = POOL.get() {
            pool.release_pool(device, id.into());
        }
    });
}
