//! Finds the calling line of a Python program through CPython's C API. The functions are looked up by name, because a program
//! may have no Python.

use std::ffi::{CStr, c_char, c_int};
use std::path::MAIN_SEPARATOR;
use std::sync::LazyLock;

use vramscope_bare::python::{Frames, Object, function};
use vramscope_bare::sys;

/// CPython's functions, as `Python.h` has declared them since 3.9.
struct Python {
    own_state: extern "C" fn() -> Object,
    ensure: extern "C" fn() -> c_int,
    release: extern "C" fn(c_int),
    frames: Frames,
    line: extern "C" fn(Object) -> c_int,
    attribute: extern "C" fn(Object, *const c_char) -> Object,
    text: extern "C" fn(Object) -> *const c_char,
    /// Returns a borrowed reference.
    sys_object: extern "C" fn(*const c_char) -> Object,
    is_true: extern "C" fn(Object) -> c_int,
}

static PYTHON: LazyLock<Option<Python>> = LazyLock::new(Python::of_this_process);

impl Python {
    fn of_this_process() -> Option<Self> {
        // SAFETY: the name is zero-terminated; a null library means all loaded libraries.
        let look_up = |name: &CStr| unsafe { sys::dlsym(std::ptr::null_mut(), name.as_ptr()) };
        // SAFETY: the functions have these signatures in every release since 3.9.
        unsafe {
            Some(Self {
                own_state: function(look_up, c"PyGILState_GetThisThreadState")?,
                ensure: function(look_up, c"PyGILState_Ensure")?,
                release: function(look_up, c"PyGILState_Release")?,
                frames: Frames::find(look_up)?,
                line: function(look_up, c"PyFrame_GetLineNumber")?,
                attribute: function(look_up, c"PyObject_GetAttrString")?,
                text: function(look_up, c"PyUnicode_AsUTF8")?,
                sys_object: function(look_up, c"PySys_GetObject")?,
                is_true: function(look_up, c"PyObject_IsTrue")?,
            })
        }
    }

    /// Calls `visit` with each running frame and its code, innermost first, until it returns a value. The GIL must be held.
    fn visit<T>(&self, mut visit: impl FnMut(Object, Object) -> Option<T>) -> Option<T> {
        let visit = |frame, code| {
            let found = visit(frame, code);
            self.drop(code);
            found
        };
        // SAFETY: the GIL is held.
        unsafe { self.frames.visit(visit) }
    }

    /// Releases a reference of ours. The GIL must be held.
    fn drop(&self, object: Object) {
        // SAFETY: the GIL is held.
        unsafe { self.frames.release(object) };
    }

    /// The innermost line in a file that was not installed, or else the innermost line of all. The GIL must be held.
    fn line_of_program(&self) -> Option<String> {
        let mut innermost = None;
        let found = self.visit(|frame, code| {
            let file = self.of_code(code, c"co_filename")?;
            let place = place(&file, (self.line)(frame));
            if !is_installed(&file) {
                return Some(place);
            }
            innermost.get_or_insert(place);
            None
        });
        found.or(innermost)
    }

    /// A text attribute of a code object.
    fn of_code(&self, code: Object, attribute: &CStr) -> Option<String> {
        let name = (self.attribute)(code, attribute.as_ptr());
        if name.is_null() {
            return None;
        }
        let text = (self.text)(name);
        // SAFETY: the text is zero-terminated and lives while the name is held.
        let found = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        self.drop(name);
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
    let innermost = |python: &Python| python.visit(|_, code| Some(python.of_code(code, c"co_name")));
    PYTHON.as_ref()?.locked(innermost)??
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
                python.drop(value);
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
