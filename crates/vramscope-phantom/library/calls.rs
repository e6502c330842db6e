//! Helpers shared by all rows of the function table.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::machine;
use crate::state::{Counter, Noticed};
use crate::status::{Answer, Library, Refusal};
use crate::threads::use_current_device;

thread_local! {
    /// The runtime's last refusal on this thread, for `cudaGetLastError`.
    static LAST_ERROR: Cell<c_int> = const { Cell::new(0) };
}

/// Converts the result of a call to the library's status code.
pub(crate) fn finish(library: Library, answer: Answer) -> c_int {
    let code = answer.map_or_else(|refusal| library.code(refusal), |()| 0);
    if code != 0 && library == Library::Runtime {
        LAST_ERROR.set(code);
    }
    code
}

/// Returns and clears the runtime's last error on this thread.
pub(crate) fn take_last_error() -> c_int {
    LAST_ERROR.replace(0)
}

/// The runtime's last error on this thread.
pub(crate) fn last_error() -> c_int {
    LAST_ERROR.get()
}

/// Launches by this process.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The stream that this thread last set on a library. PyTorch sets one before each call.
    static LIBRARY_STREAM: Cell<usize> = const { Cell::new(0) };
}

/// `cublasSetStream` and its siblings.
pub(crate) fn set_library_stream(_handle: usize, stream: usize) -> Answer {
    LIBRARY_STREAM.set(stream);
    Ok(())
}

/// A launch by a library, on the stream set for it.
pub(crate) fn launched_by_library() -> c_int {
    launched(LIBRARY_STREAM.get())
}

/// Counts a launch; nothing is executed.
pub(crate) fn launched(stream: usize) -> c_int {
    crate::graphs::add_work(stream);
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
    // A launch itself never runs out of memory here.
    use_current_device().ok();
    machine().count(Counter::Launches);
    0
}

/// The number of launches by this process so far.
pub(crate) fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Refuses a call that the phantom knows but does not implement.
pub(crate) fn refused(library: Library, name: &'static str) -> c_int {
    machine().notice(Noticed::Refused, name);
    finish(library, Err(Refusal::NotSupported))
}
