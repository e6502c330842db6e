//! Counts the program's queries for total or free device memory: a program may size its work by the result.
//!
//! PyTorch's own libraries query memory too, for the text of an out-of-memory error and to choose workspaces. Those calls are
//! not counted.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use vramscope_bare::sys;

use crate::machine::machine;
use crate::python;
use crate::state::{Counter, Noticed};

/// Python functions of PyTorch that query memory for the program, through libraries that otherwise query for themselves.
const ASKS_FOR_THE_PROGRAM: [&str; 2] = ["mem_get_info", "get_memory_info"];

/// Libraries of vramscope, which query memory for their own counters: the recorder, and the pool of the Python package. The pool holds its
/// locks meanwhile, and threads with the GIL wait for these, so its queries must not wait for the GIL.
const OWN: [&str; 2] = ["/libvramscope_recorder.so", "/vramscope/_native.abi3.so"];

/// Counts a memory query if the program made it.
pub(crate) fn notice() {
    let path = caller();
    if path.as_deref().is_some_and(is_own) {
        return;
    }
    let library = path.as_deref().map(file_name);
    let is_pytorchs = library.is_some_and(is_of_pytorch)
        && !python::innermost_function().is_some_and(|name| ASKS_FOR_THE_PROGRAM.contains(&name.as_str()));
    if is_pytorchs {
        return;
    }
    match python::calling_line() {
        Some(line) => machine().notice_line(Noticed::AskedMemory, &line),
        // A process without Python and without a context is a monitor.
        None if machine().has_any_context() => {
            machine().notice(Noticed::AskedMemory, library.unwrap_or("the program"));
        }
        None => {}
    }
}

/// Counts a query for all properties of a device, which include its memory. With Python loaded, native code queries the
/// properties to choose kernels; [`vramscope_phantom_memory_asked`] counts Python's reads of them.
pub(crate) fn notice_properties() {
    if !python::is_loaded() {
        notice();
    }
}

/// Notices that PyTorch's allocator asks whether an event completed: it keeps freed memory until other streams are done with it, so its
/// peak depends on how far the GPU is.
pub(crate) fn notice_crossing() {
    let seen = machine().state.counter(Counter::Crossings);
    if seen.load(Ordering::Relaxed) == 0
        && caller().as_deref().map(file_name).is_some_and(|name| name.starts_with("libc10_cuda"))
    {
        seen.store(1, Ordering::Relaxed);
    }
}

/// Called by the recorder when the program reads PyTorch's `total_memory` of a device, which PyTorch queried earlier.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_phantom_memory_asked() {
    if let Some(line) = python::calling_line() {
        machine().notice_line(Noticed::AskedMemory, &line);
    }
}

/// Whether a library of vramscope queries memory.
fn is_own(path: &str) -> bool {
    OWN.iter().any(|own| path.ends_with(own))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a library of PyTorch queries memory for itself. Libraries that serve Python do not: there, the program queries.
fn is_of_pytorch(library: &str) -> bool {
    (library.starts_with("libc10") || library.starts_with("libtorch"))
        && !library.starts_with("libtorch_python")
}

/// The path of the loaded object that called this library: the first object on the stack outside this library.
pub(crate) fn caller() -> Option<String> {
    let mut found = None;
    // SAFETY: `visit` gets a pointer to `found`, which lives until the walk returns.
    unsafe { sys::_Unwind_Backtrace(visit, (&raw mut found).cast()) };
    found
}

extern "C" fn visit(context: *mut c_void, found: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;
    // SAFETY: the walk passes the context of a frame.
    let at = unsafe { sys::_Unwind_GetIP(context) };
    let path = sys::object_path(at);
    if path.is_empty() || sys::is_own(at) {
        return GO_ON;
    }
    // SAFETY: `caller` passes a pointer to its own `Option<String>`.
    unsafe { *found.cast::<Option<String>>() = Some(path.to_string_lossy().into_owned()) };
    STOP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_and_the_recorder_query_memory_for_themselves() {
        for (path, expected) in [
            ("/tmp/vramscope-run/libvramscope_recorder.so", true),
            ("/usr/lib/python3/site-packages/vramscope/_native.abi3.so", true),
            ("/usr/lib/python3/site-packages/other/_native.abi3.so", false),
            ("/usr/lib/libc10_cuda.so", false),
        ] {
            assert_eq!(is_own(path), expected, "{path}");
        }
        assert_eq!(file_name("/usr/lib/libc10_cuda.so"), "libc10_cuda.so");
    }

    #[test]
    fn libraries_of_pytorch_ask_for_themselves_but_for_those_that_serve_python() {
        for (library, is_pytorchs) in [
            ("libc10_cuda.so", true),
            ("libtorch_cuda.so", true),
            ("libtorch_cpu-1a2b.so", true),
            ("libtorch_python.so", false),
            ("_C.abi3.so", false),
            ("program", false),
        ] {
            assert_eq!(is_of_pytorch(library), is_pytorchs, "{library}");
        }
    }
}
