//! Which CUDA the program was made for: the runtime that it loaded says so.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use crate::machine::machine;
use crate::sys;

/// NVIDIA's runtimes by the name that the loader knows them by, the newest first, and the version that each stands for.
const RUNTIMES: [(&CStr, c_int); 3] =
    [(c"libcudart.so.13", 13_000), (c"libcudart.so.12", 12_040), (c"libcudart.so.11.0", 11_080)];

/// The driver's version where neither a runtime nor the run says one.
const NEWEST: c_int = 13_000;

/// The runtime's version, as `1000 * major + 10 * minor`.
pub(crate) fn runtime() -> c_int {
    static LOADED: OnceLock<c_int> = OnceLock::new();
    // Without a runtime yet the answer may change.
    if let Some(&version) = LOADED.get() {
        return version;
    }
    let loaded = RUNTIMES.iter().find(|(name, _)| is_loaded(name)).map(|&(_, version)| version);
    loaded.map_or(NEWEST, |version| *LOADED.get_or_init(|| version))
}

/// The driver's version: as new as the run says, else as the runtime.
pub(crate) fn driver() -> c_int {
    match machine().state.cuda_version() {
        0 => runtime(),
        version => version as c_int,
    }
}

fn is_loaded(name: &CStr) -> bool {
    // SAFETY: the name ends with a zero, and nothing is loaded that is not loaded already.
    !unsafe { sys::dlopen(name.as_ptr(), sys::RTLD_NOW | sys::RTLD_NOLOAD) }.is_null()
}
