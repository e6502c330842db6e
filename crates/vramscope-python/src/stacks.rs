//! The Python stack of the calling thread: the current instruction of each running function.
//!
//! Frames are not retained, because a frame keeps every array in its local variables alive. A capture retains the code object,
//! which has no variables, and the position in it. The line is looked up on demand.
#![allow(unsafe_code, reason = "frames are reached through functions that Python's stable interface lacks")]

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use vramscope::allocator::SourceFrame;
use vramscope_bare::python::{Frames, Object, function};

/// A running function and its position.
pub(crate) struct Running {
    /// The function's code object (`frame.f_code`).
    pub(crate) code: Py<PyAny>,
    /// Byte offset of the current instruction (`frame.f_lasti`); -1 before the first.
    pub(crate) instruction: i32,
}

impl Running {
    /// Identifies the code object while it is alive.
    pub(crate) fn code_address(&self) -> usize {
        self.code.as_ptr() as usize
    }
}

/// CPython functions that are not part of its stable interface.
struct FrameFunctions {
    frames: Frames,
    /// `PyFrame_GetLasti`, of CPython 3.11 and later.
    instruction: unsafe extern "C" fn(Object) -> std::ffi::c_int,
}

fn frame_functions() -> Option<&'static FrameFunctions> {
    static FUNCTIONS: OnceLock<Option<FrameFunctions>> = OnceLock::new();
    let find = || {
        // SAFETY: this is the signature in CPython's headers since the function's introduction.
        let instruction = unsafe { function(look_up, c"PyFrame_GetLasti")? };
        Some(FrameFunctions { frames: Frames::find(look_up)?, instruction })
    };
    FUNCTIONS.get_or_init(find).as_ref()
}

/// The address of the loaded function with a name; null if there is none.
#[cfg(unix)]
fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte, and looking it up changes nothing.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

#[cfg(not(unix))]
fn look_up(_name: &CStr) -> *mut c_void {
    std::ptr::null_mut()
}

/// Appends the running functions of this thread to `stack`, innermost first. Compiled functions have no frame and are missing.
pub(crate) fn capture(py: Python<'_>, stack: &mut Vec<Running>) -> PyResult<()> {
    match frame_functions() {
        Some(functions) => {
            capture_by(functions, py, stack);
            Ok(())
        }
        None => capture_by_attributes(py, stack),
    }
}

fn capture_by(functions: &FrameFunctions, py: Python<'_>, stack: &mut Vec<Running>) {
    // SAFETY: the interpreter is held (`py`). The code is a new reference, which moves to `stack`.
    unsafe {
        functions.frames.visit(|frame, code| {
            let code = Bound::from_owned_ptr(py, code.cast()).unbind();
            stack.push(Running { code, instruction: (functions.instruction)(frame) });
            None::<()>
        });
    }
}

/// Like [`capture_by`], for interpreters without those functions. It takes about ten times as long.
fn capture_by_attributes(py: Python<'_>, stack: &mut Vec<Running>) -> PyResult<()> {
    // SAFETY: the interpreter is held (`py`), and the reference is borrowed from a running function.
    let frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    let mut next = frame;
    while let Some(frame) = next {
        let code = frame.getattr(pyo3::intern!(py, "f_code"))?.unbind();
        let instruction = frame.getattr(pyo3::intern!(py, "f_lasti"))?.extract()?;
        stack.push(Running { code, instruction });
        let caller = frame.getattr(pyo3::intern!(py, "f_back"))?;
        next = (!caller.is_none()).then_some(caller);
    }
    Ok(())
}

/// Calls `act` without a pending exception on this thread, and restores the pending one afterwards.
///
/// CPython drops values while an exception unwinds. Python code that runs then would fail, or clear the exception.
pub(crate) fn without_pending_exception<T>(_py: Python<'_>, act: impl FnOnce() -> T) -> T {
    let (mut kind, mut value, mut traceback) =
        (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the interpreter is held (`_py`). We own the three references, which are null if none is pending.
    unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut traceback) };
    let done = act();
    // SAFETY: the interpreter is still held, and this returns the three references.
    unsafe { ffi::PyErr_Restore(kind, value, traceback) };
    done
}

impl Running {
    /// Resolves the source file, the line and the function (or `<module>`), as `frame.f_lineno` does. Instructions may have no line.
    pub(crate) fn frame(&self, py: Python<'_>) -> PyResult<SourceFrame> {
        let code = self.code.bind(py);
        let filename = text(&code.getattr(pyo3::intern!(py, "co_filename"))?)?;
        let name = text(&code.getattr(pyo3::intern!(py, "co_name"))?)?;
        let mut line = None;
        if self.instruction < 0 {
            line = code.getattr(pyo3::intern!(py, "co_firstlineno"))?.extract()?;
        } else {
            for lines in code.call_method0(pyo3::intern!(py, "co_lines"))?.try_iter()? {
                let (start, end, its): (i32, i32, Option<u32>) = lines?.extract()?;
                if (start..end).contains(&self.instruction) {
                    line = its;
                    break;
                }
            }
        }
        Ok(SourceFrame::new(&filename, line.unwrap_or(0), &name))
    }
}

/// A Python string. Invalid Unicode is replaced.
fn text(string: &Bound<'_, PyAny>) -> PyResult<String> {
    let string = string
        .cast::<pyo3::types::PyString>()
        .map_err(|_| PyRuntimeError::new_err("a code object's name is not text"))?;
    Ok(string.to_string_lossy().into_owned())
}
