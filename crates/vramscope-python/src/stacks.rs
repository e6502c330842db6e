//! The Python stack of the calling thread: which instruction each function that runs is at.
//!
//! Frames are looked at and let go: a frame that is kept keeps every array in its local variables. What is kept is the code object,
//! which has no variables, and the position in it; the line is looked up when somebody asks.
#![allow(unsafe_code, reason = "frames are reached through functions that Python's stable interface lacks")]

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A function that runs, and where in it.
pub(crate) struct Running {
    /// The function's code object (`frame.f_code`).
    pub(crate) code: Py<PyAny>,
    /// Bytes from the beginning of its instructions to the one that runs (`frame.f_lasti`); -1 before the first.
    pub(crate) instruction: i32,
}

impl Running {
    /// Names the code object as long as it is alive.
    pub(crate) fn code_address(&self) -> usize {
        self.code.as_ptr() as usize
    }
}

/// `PyFrame_GetBack`: a new reference, or null.
type GetBack = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject;
/// `PyFrame_GetLasti`, of CPython 3.11 and later.
type GetLasti = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> std::ffi::c_int;

/// What CPython has and its stable interface does not promise.
struct FrameFunctions {
    back: GetBack,
    instruction: GetLasti,
}

#[cfg(unix)]
fn frame_functions() -> Option<&'static FrameFunctions> {
    static FUNCTIONS: OnceLock<Option<FrameFunctions>> = OnceLock::new();
    let find = || {
        // SAFETY: the names end with a zero byte, and looking them up changes nothing.
        let (back, instruction) = unsafe {
            (
                libc::dlsym(libc::RTLD_DEFAULT, c"PyFrame_GetBack".as_ptr()),
                libc::dlsym(libc::RTLD_DEFAULT, c"PyFrame_GetLasti".as_ptr()),
            )
        };
        if back.is_null() || instruction.is_null() {
            return None;
        }
        // SAFETY: these are the signatures that CPython's headers give since the functions exist (3.9 and 3.11).
        let functions = unsafe {
            FrameFunctions {
                back: std::mem::transmute::<*mut libc::c_void, GetBack>(back),
                instruction: std::mem::transmute::<*mut libc::c_void, GetLasti>(instruction),
            }
        };
        Some(functions)
    };
    FUNCTIONS.get_or_init(find).as_ref()
}

#[cfg(not(unix))]
fn frame_functions() -> Option<&'static FrameFunctions> {
    static FUNCTIONS: OnceLock<Option<FrameFunctions>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| None).as_ref()
}

/// Adds the functions that run on this thread to `stack`, innermost first. Compiled functions have no frame and are not among them.
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
    // SAFETY: the interpreter is held (`py`). The innermost frame is borrowed and belongs to a function that is running.
    // `PyFrame_GetCode` and `PyFrame_GetBack` return references of our own: the first goes to `stack`, the second is given back
    // once the next frame is known.
    unsafe {
        let mut frame = ffi::PyEval_GetFrame();
        ffi::Py_XINCREF(frame.cast());
        while !frame.is_null() {
            let code = Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(frame).cast()).unbind();
            stack.push(Running { code, instruction: (functions.instruction)(frame) });
            let caller = (functions.back)(frame);
            ffi::Py_DECREF(frame.cast());
            frame = caller;
        }
    }
}

/// As [`capture_by`], where the interpreter lacks those functions; it takes some ten times as long.
fn capture_by_attributes(py: Python<'_>, stack: &mut Vec<Running>) -> PyResult<()> {
    // SAFETY: the interpreter is held (`py`), and the reference is borrowed from a function that is running.
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

/// Does something while no exception is pending on this thread, and puts the pending one back afterwards.
///
/// CPython drops values while an exception unwinds. Python code that runs then fails, or clears the exception.
pub(crate) fn without_pending_exception<T>(_py: Python<'_>, act: impl FnOnce() -> T) -> T {
    let (mut kind, mut value, mut traceback) =
        (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the interpreter is held (`_py`). The three references, or null pointers where none is pending, are ours from here on.
    unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut traceback) };
    let done = act();
    // SAFETY: the interpreter is still held, and this gives the three references back.
    unsafe { ffi::PyErr_Restore(kind, value, traceback) };
    done
}

/// A function that runs, in words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// The source file, as it was compiled.
    pub(crate) filename: String,
    /// The line that runs, from 1; `None` where instructions stand for no line.
    pub(crate) line: Option<u32>,
    /// The function, or `<module>`.
    pub(crate) name: String,
}

impl Frame {
    /// Looks up what a position in a code object means, as `frame.f_lineno` does.
    pub(crate) fn of(py: Python<'_>, running: &Running) -> PyResult<Self> {
        let code = running.code.bind(py);
        let filename = text(&code.getattr(pyo3::intern!(py, "co_filename"))?)?;
        let name = text(&code.getattr(pyo3::intern!(py, "co_name"))?)?;
        let mut line = None;
        if running.instruction < 0 {
            line = code.getattr(pyo3::intern!(py, "co_firstlineno"))?.extract()?;
        } else {
            for lines in code.call_method0(pyo3::intern!(py, "co_lines"))?.try_iter()? {
                let (start, end, its): (i32, i32, Option<u32>) = lines?.extract()?;
                if (start..end).contains(&running.instruction) {
                    line = its;
                    break;
                }
            }
        }
        Ok(Self { filename, line, name })
    }
}

/// A string of Python's; what is no Unicode in it is replaced.
fn text(string: &Bound<'_, PyAny>) -> PyResult<String> {
    let string = string
        .cast::<pyo3::types::PyString>()
        .map_err(|_| PyRuntimeError::new_err("a code object's name is not text"))?;
    Ok(string.to_string_lossy().into_owned())
}
