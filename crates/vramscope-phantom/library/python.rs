//! The line of the Python program that called, where a program is one of Python's. CPython's own interface says it, looked up
//! by name: a program may have no Python in it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::MAIN_SEPARATOR;
use std::sync::LazyLock;

use crate::sys;

/// An object of Python's.
type Object = *mut c_void;

/// CPython's functions, as `Python.h` declares them since 3.9.
struct Python {
    own_state: extern "C" fn() -> Object,
    ensure: extern "C" fn() -> c_int,
    release: extern "C" fn(c_int),
    frame: extern "C" fn() -> Object,
    back: extern "C" fn(Object) -> Object,
    code: extern "C" fn(Object) -> Object,
    line: extern "C" fn(Object) -> c_int,
    attribute: extern "C" fn(Object, *const c_char) -> Object,
    text: extern "C" fn(Object) -> *const c_char,
    hold: extern "C" fn(Object),
    drop: extern "C" fn(Object),
}

static PYTHON: LazyLock<Option<Python>> = LazyLock::new(Python::of_this_process);

/// CPython's function of a name, as the type that the caller wants.
fn function<F>(name: &CStr) -> Option<F> {
    // SAFETY: a text that ends with a zero; a null library means all that are loaded.
    let found = unsafe { sys::dlsym(std::ptr::null_mut(), name.as_ptr()) };
    // SAFETY: `Python` gives CPython's function of each name the signature that it has in every release since 3.9.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

impl Python {
    fn of_this_process() -> Option<Self> {
        Some(Self {
            own_state: function(c"PyGILState_GetThisThreadState")?,
            ensure: function(c"PyGILState_Ensure")?,
            release: function(c"PyGILState_Release")?,
            frame: function(c"PyEval_GetFrame")?,
            back: function(c"PyFrame_GetBack")?,
            code: function(c"PyFrame_GetCode")?,
            line: function(c"PyFrame_GetLineNumber")?,
            attribute: function(c"PyObject_GetAttrString")?,
            text: function(c"PyUnicode_AsUTF8")?,
            hold: function(c"Py_IncRef")?,
            drop: function(c"Py_DecRef")?,
        })
    }

    /// The innermost line of a file that was not installed, or else the innermost of all. Python's lock is held.
    fn line_of_program(&self) -> Option<String> {
        let mut frame = (self.frame)();
        if frame.is_null() {
            return None;
        }
        (self.hold)(frame);
        let mut innermost = None;
        while !frame.is_null() {
            let at = self.file(frame).map(|file| (is_installed(&file), place(&file, (self.line)(frame))));
            let back = (self.back)(frame);
            (self.drop)(frame);
            frame = back;
            match at {
                Some((false, place)) => {
                    if !frame.is_null() {
                        (self.drop)(frame);
                    }
                    return Some(place);
                }
                Some((true, place)) => innermost = innermost.or(Some(place)),
                None => {}
            }
        }
        innermost
    }

    /// The file of the code that a frame runs.
    fn file(&self, frame: Object) -> Option<String> {
        let code = (self.code)(frame);
        let name = (self.attribute)(code, c"co_filename".as_ptr());
        (self.drop)(code);
        if name.is_null() {
            return None;
        }
        let text = (self.text)(name);
        // SAFETY: Python's text of a name that is held ends with a zero.
        let file = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        (self.drop)(name);
        file
    }
}

/// A file that came with Python or a package, or that is none.
fn is_installed(file: &str) -> bool {
    ["/site-packages/", "/dist-packages/", "/lib/python", "/vramscope-phantom-"]
        .iter()
        .any(|part| file.contains(part))
        || file.starts_with('<')
}

/// A line of a file, from the folder in which the program runs.
fn place(file: &str, line: c_int) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    let file = file
        .strip_prefix(&*folder.to_string_lossy())
        .map_or(file, |rest| rest.trim_start_matches(MAIN_SEPARATOR));
    format!("{file}:{line}")
}

/// The line of the program that this thread runs. `None` where it runs no Python, as PyTorch's own threads do.
pub(crate) fn calling_line() -> Option<String> {
    let python = PYTHON.as_ref()?;
    // A thread that Python does not know would have to be made known first, for a lock that its starter may hold.
    if (python.own_state)().is_null() {
        return None;
    }
    let state = (python.ensure)();
    let line = python.line_of_program();
    (python.release)(state);
    line
}
