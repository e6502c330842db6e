//! Functions of CPython, found by their names: a program may have no Python.
#![allow(unsafe_code, reason = "functions of C")]

use std::ffi::{CStr, c_void};

/// A Python object.
pub type Object = *mut c_void;

/// The function with a name, as the caller's function type. `look_up` returns its address, or null.
///
/// # Safety
/// `F` is a function pointer, with the signature of that function.
pub unsafe fn function<F>(look_up: impl Fn(&CStr) -> *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let found = look_up(name);
    // SAFETY: the caller's promise.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// The functions that walk the frames of a thread. Their signatures in `Python.h` are the same since 3.9.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    current: unsafe extern "C" fn() -> Object,
    back: unsafe extern "C" fn(Object) -> Object,
    code: unsafe extern "C" fn(Object) -> Object,
    hold: unsafe extern "C" fn(Object),
    drop: unsafe extern "C" fn(Object),
}

impl Frames {
    /// The functions of this process. `look_up` returns the address of CPython's function with a name, or null.
    pub fn find(look_up: impl Fn(&CStr) -> *mut c_void) -> Option<Self> {
        // SAFETY: the signatures above.
        unsafe {
            Some(Self {
                current: function(&look_up, c"PyEval_GetFrame")?,
                back: function(&look_up, c"PyFrame_GetBack")?,
                code: function(&look_up, c"PyFrame_GetCode")?,
                hold: function(&look_up, c"Py_IncRef")?,
                drop: function(&look_up, c"Py_DecRef")?,
            })
        }
    }

    /// Calls `visit` with each running frame of this thread, and a new reference to its code, innermost first, until it returns a value.
    ///
    /// # Safety
    /// The calling thread holds the GIL.
    pub unsafe fn visit<T>(&self, mut visit: impl FnMut(Object, Object) -> Option<T>) -> Option<T> {
        // SAFETY: the GIL is held. The innermost frame is borrowed from a running function. Each frame is released after its caller, a new
        // reference, is known.
        unsafe {
            let mut frame = (self.current)();
            if frame.is_null() {
                return None;
            }
            (self.hold)(frame);
            let mut found = None;
            while !frame.is_null() && found.is_none() {
                found = visit(frame, (self.code)(frame));
                let back = (self.back)(frame);
                (self.drop)(frame);
                frame = back;
            }
            if !frame.is_null() {
                (self.drop)(frame);
            }
            found
        }
    }

    /// Releases a reference.
    ///
    /// # Safety
    /// The calling thread holds the GIL, and owns the reference.
    pub unsafe fn release(&self, object: Object) {
        // SAFETY: the caller's promise.
        unsafe { (self.drop)(object) };
    }
}
