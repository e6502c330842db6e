//! Launches of device work. They are counted, and captured into graphs; nothing is executed.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::graphs::add_work;
use crate::machine::machine;
use crate::state::Counter;
use crate::status::Answer;
use crate::threads::use_current_device;

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

/// The stream of this thread's next launch by a library.
pub(crate) fn library_stream() -> usize {
    LIBRARY_STREAM.get()
}

/// A launch by a library, on the stream set for it.
pub(crate) fn launched_by_library() -> c_int {
    launched(LIBRARY_STREAM.get())
}

/// Counts a launch; nothing is executed.
pub(crate) fn launched(stream: usize) -> c_int {
    add_work(stream);
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
