//! A copy of the C++ function with which PyTorch selects the streams of a CUDA graph, or the thread of a private pool.
#![allow(unsafe_code, reason = "copies, calls and destroys an object of C++")]

use std::ffi::{c_int, c_void};

/// The storage of `std::function` in libstdc++ (`_Any_data`).
type Storage = [usize; 2];

/// `_M_manager(destination, source, operation)`.
type Manager = unsafe extern "C" fn(*mut Storage, *const Storage, c_int) -> bool;
/// `_M_invoker(storage, arguments)`. An argument is passed by reference.
type Invoker = unsafe extern "C-unwind" fn(*const Storage, *const *mut c_void) -> bool;

/// Operations of a manager (`_Manager_operation`).
const CLONE: c_int = 2;
const DESTROY: c_int = 3;

/// `std::function<bool(cudaStream_t)>` of libstdc++. Without functions it is empty.
#[repr(C)]
struct CxxFunction {
    storage: Storage,
    manager: Option<Manager>,
    invoker: Option<Invoker>,
}

/// Our copy of such a function. It accepts the streams whose requests belong to a pool.
pub(super) struct StreamFilter(CxxFunction);

// SAFETY: PyTorch calls its copy from all threads, under its allocator's lock; ours is called under a lock too.
unsafe impl Send for StreamFilter {}

impl StreamFilter {
    /// Copies a function.
    ///
    /// # Safety
    /// The pointer is that of a live `std::function<bool(cudaStream_t)>` of libstdc++.
    pub(super) unsafe fn copy_of(function: *const c_void) -> Self {
        let source = function.cast::<CxxFunction>();
        let mut copy = CxxFunction { storage: [0; 2], manager: None, invoker: None };
        // SAFETY: the caller passes a live function; a manager copies from its storage into an empty one.
        unsafe {
            if let Some(manager) = (*source).manager {
                manager(&mut copy.storage, &raw const (*source).storage, CLONE);
                copy.manager = Some(manager);
                copy.invoker = (*source).invoker;
            }
        }
        Self(copy)
    }

    /// Whether requests on this stream, from this thread, belong to the pool.
    pub(super) fn accepts(&self, stream: *mut c_void) -> bool {
        // SAFETY: the storage is a copy that the function's own manager made.
        self.0.invoker.is_some_and(|invoker| unsafe { invoker(&self.0.storage, &stream) })
    }
}

impl Drop for StreamFilter {
    fn drop(&mut self) {
        if let Some(manager) = self.0.manager {
            let storage = &raw mut self.0.storage;
            // SAFETY: the storage is a copy that this manager made, and it is not used again.
            unsafe { manager(storage, storage, DESTROY) };
        }
    }
}
