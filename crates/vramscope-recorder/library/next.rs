//! The real functions behind ours.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use vramscope_bare::sys;

/// Shared libraries that have the functions: PyTorch's core, CUDA's runtime by release, the driver. Objects of Python are loaded for
/// themselves, so that `RTLD_NEXT` does not find their libraries.
const LIBRARIES: [&CStr; 5] =
    [c"libc10.so", c"libcudart.so.13", c"libcudart.so.12", c"libcudart.so.11.0", c"libcuda.so.1"];

/// The C library's `dlsym`. Ours stands before it, so it is found by its version.
pub(crate) fn real_dlsym() -> usize {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let known = FOUND.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // The versions of x86-64, of aarch64, and of glibc since 2.34.
    let found = [c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_2.34"].into_iter().find_map(|version| {
        // SAFETY: both texts are zero-terminated; looking up a name changes nothing.
        let found = unsafe { sys::dlvsym(sys::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        (!found.is_null()).then_some(found as usize)
    });
    FOUND.store(found.unwrap_or(0), Ordering::Relaxed);
    found.unwrap_or(0)
}

/// Looks a name up in a library, as the C library does. Null if it is missing.
pub(crate) fn look_up(library: *mut c_void, name: *const c_char) -> *mut c_void {
    let real = real_dlsym();
    if real == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the address is that of `dlsym`, which has this signature.
    let real: extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = unsafe { std::mem::transmute(real) };
    real(library, name)
}

/// The function that a program would call without this library; 0 if none is loaded.
pub(crate) fn find(name: &CStr) -> usize {
    // Without preloading, `RTLD_NEXT` finds only what this library is linked to, and `RTLD_DEFAULT` also its own functions.
    for scope in [sys::RTLD_NEXT, sys::RTLD_DEFAULT] {
        let found = look_up(scope, name.as_ptr()) as usize;
        if found != 0 && !sys::is_own(found) {
            return found;
        }
    }
    for library in LIBRARIES {
        // SAFETY: the name is zero-terminated. Nothing is loaded; the reference keeps the library loaded, as the program does.
        let library = unsafe { sys::dlopen(library.as_ptr(), sys::RTLD_LAZY | sys::RTLD_NOLOAD) };
        if !library.is_null() {
            let found = look_up(library, name.as_ptr());
            if !found.is_null() {
                return found as usize;
            }
        }
    }
    0
}

/// A function that is looked up at its first call.
#[derive(Debug)]
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicUsize,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicUsize::new(0) }
    }

    pub(crate) fn name(&self) -> &'static CStr {
        self.name
    }

    /// Takes note of the address that a program has called so far.
    pub(crate) fn know(&self, address: usize) {
        self.found.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    /// Its address; 0 if no loaded library has it.
    pub(crate) fn address(&self) -> usize {
        match self.found.load(Ordering::Relaxed) {
            0 => {
                let found = find(self.name);
                self.found.store(found, Ordering::Relaxed);
                found
            }
            known => known,
        }
    }
}
