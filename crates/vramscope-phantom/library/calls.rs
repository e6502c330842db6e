//! What all rows of the table have in common.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::machine;
use crate::state::{Counter, Noticed};
use crate::status::{Answer, Library, Refusal};
use crate::threads::use_current_device;

thread_local! {
    /// What `cudaGetLastError` says: the runtime's last refusal on this thread.
    static LAST_ERROR: Cell<c_int> = const { Cell::new(0) };
}

/// The library's number for what a call came to.
pub(crate) fn finish(library: Library, answer: Answer) -> c_int {
    let code = answer.map_or_else(|refusal| library.code(refusal), |()| 0);
    if code != 0 && library == Library::Runtime {
        LAST_ERROR.set(code);
    }
    code
}

/// The runtime's last error on this thread; there is none any more.
pub(crate) fn take_last_error() -> c_int {
    LAST_ERROR.replace(0)
}

/// The runtime's last error on this thread.
pub(crate) fn last_error() -> c_int {
    LAST_ERROR.get()
}

/// Launches of this process.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The stream that this thread last gave to a library: PyTorch gives one before each call.
    static LIBRARY_STREAM: Cell<usize> = const { Cell::new(0) };
}

/// `cublasSetStream` and its siblings.
pub(crate) fn set_library_stream(_handle: usize, stream: usize) -> Answer {
    LIBRARY_STREAM.set(stream);
    Ok(())
}

/// Work that a library asks for.
pub(crate) fn launched_by_library() -> c_int {
    launched(LIBRARY_STREAM.get())
}

/// Work for a device: it is counted, and that is all.
pub(crate) fn launched(stream: usize) -> c_int {
    crate::graphs::add_work(stream);
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
    // The launch itself cannot fail for want of memory here.
    use_current_device().ok();
    machine().count(Counter::Launches);
    0
}

/// How much work this process asked for until now.
pub(crate) fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// A call that the phantom knows and does not do.
pub(crate) fn refused(library: Library, name: &'static str) -> c_int {
    machine().notice(Noticed::Refused, name);
    finish(library, Err(Refusal::NotSupported))
}
