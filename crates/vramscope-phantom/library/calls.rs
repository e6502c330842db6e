//! The end of a call: its result becomes the library's status code.

use std::cell::Cell;
use std::ffi::c_int;

use crate::machine::machine;
use crate::state::Noticed;
use crate::status::{Answer, Library, Refusal};

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

/// Ends a call that writes 0. The user learns of a workspace that is left out.
pub(crate) fn zero(library: Library, name: &'static str, answer: Answer) -> c_int {
    if ["bufferSize", "WorkspaceSize", "ReserveSpaceSize"].iter().any(|size| name.contains(size)) {
        machine().notice(Noticed::LeftOut, name);
    }
    finish(library, answer)
}

/// Refuses a call that the phantom knows but does not implement.
pub(crate) fn refused(library: Library, name: &'static str) -> c_int {
    machine().notice(Noticed::Refused, name);
    finish(library, Err(Refusal::NotSupported))
}
