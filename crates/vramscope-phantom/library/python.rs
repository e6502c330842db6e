//! Finds the calling line of a Python program through CPython's C API. The functions are looked up by name, because a program
//! may have no Python.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::MAIN_SEPARATOR;
use std::sync::LazyLock;

use crate::sys;

/// A Python object.
type Object = *mut c_void;

/// CPython's functions, as `Python.h` has declared them since 3.9.
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
    /// Returns a borrowed reference.
    sys_object: extern "C" fn(*const c_char) -> Object,
    is_true: extern "C" fn(Object) -> c_int,
    hold: extern "C" fn(Object),
    drop: extern "C" fn(Object),
}

static PYTHON: LazyLock<Option<Python>> = LazyLock::new(Python::of_this_process);

/// CPython's function with a name, as the caller's function type.
fn function<F>(name: &CStr) -> Option<F> {
    // SAFETY: the name is zero-terminated; a null library means all loaded libraries.
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
            sys_object: function(c"PySys_GetObject")?,
            is_true: function(c"PyObject_IsTrue")?,
            hold: function(c"Py_IncRef")?,
            drop: function(c"Py_DecRef")?,
        })
    }

    /// The innermost line in a file that was not installed, or else the innermost line of all. The GIL must be held.
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

    /// The file name of a frame's code.
    fn file(&self, frame: Object) -> Option<String> {
        self.of_code(frame, c"co_filename")
    }

    /// A text attribute of a frame's code.
    fn of_code(&self, frame: Object, attribute: &CStr) -> Option<String> {
        let code = (self.code)(frame);
        let name = (self.attribute)(code, attribute.as_ptr());
        (self.drop)(code);
        if name.is_null() {
            return None;
        }
        let text = (self.text)(name);
        // SAFETY: the text is zero-terminated and lives while the name is held.
        let found = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        (self.drop)(name);
        found
    }

    /// Runs `ask` with the GIL held. `None` on a thread unknown to Python: registering the thread needs the GIL, which the
    /// thread's creator may hold.
    fn locked<T>(&self, ask: impl FnOnce(&Self) -> T) -> Option<T> {
        if (self.own_state)().is_null() {
            return None;
        }
        let state = (self.ensure)();
        let answer = ask(self);
        (self.release)(state);
        Some(answer)
    }
}

/// Whether a file belongs to Python or to an installed package, or is not a file.
fn is_installed(file: &str) -> bool {
    ["/site-packages/", "/dist-packages/", "/lib/python", "/vramscope-phantom-"]
        .iter()
        .any(|part| file.contains(part))
        || file.starts_with('<')
}

/// A file and line, relative to the current directory.
fn place(file: &str, line: c_int) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    let file = file
        .strip_prefix(&*folder.to_string_lossy())
        .map_or(file, |rest| rest.trim_start_matches(MAIN_SEPARATOR));
    format!("{file}:{line}")
}

/// Whether this process has a Python interpreter.
pub(crate) fn is_loaded() -> bool {
    PYTHON.is_some()
}

/// The program's line that this thread runs. `None` without a Python frame, as on PyTorch's own threads.
pub(crate) fn calling_line() -> Option<String> {
    PYTHON.as_ref()?.locked(Python::line_of_program)?
}

/// The name of the Python function that this thread runs.
pub(crate) fn innermost_function() -> Option<String> {
    let of_frame = |python: &Python| {
        let frame = (python.frame)();
        (!frame.is_null()).then(|| python.of_code(frame, c"co_name")).flatten()
    };
    PYTHON.as_ref()?.locked(of_frame)?
}

/// The set flags of this process's interpreter (by their names in `sys.flags`) that prevent it from importing the environment's
/// `sitecustomize`.
pub(crate) fn settings_without_site() -> Vec<&'static str> {
    const SETTINGS: [(&CStr, &str); 3] =
        [(c"isolated", "isolated"), (c"no_site", "no_site"), (c"ignore_environment", "ignore_environment")];
    let set = |python: &Python| {
        let flags = (python.sys_object)(c"flags".as_ptr());
        let is_set = |name: &CStr| {
            let value = (python.attribute)(flags, name.as_ptr());
            let is_set = !value.is_null() && (python.is_true)(value) == 1;
            if !value.is_null() {
                (python.drop)(value);
            }
            is_set
        };
        if flags.is_null() {
            return Vec::new();
        }
        SETTINGS.into_iter().filter(|(name, _)| is_set(name)).map(|(_, setting)| setting).collect()
    };
    PYTHON.as_ref().and_then(|python| python.locked(set)).unwrap_or_default()
}
