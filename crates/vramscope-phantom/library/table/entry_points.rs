//! Lookup of the table's functions by name.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use super::find;
use crate::machine::say;
use crate::out::{Out, text};
use crate::status::{Answer, Library, Refusal};
use crate::unknown::stand_in;

/// The function was found: `cudaDriverEntryPointQueryResult`, `CUdriverProcAddressQueryResult`.
const FOUND: c_int = 0;

/// The driver's function for a name. Programs omit the revision suffix, so this returns the newest revision.
fn driver_function(name: &str) -> usize {
    let newest = ["_v4", "_v3", "_v2", ""].into_iter().find_map(|revision| {
        let row = find(&format!("{name}{revision}"))?;
        (row.library == Library::Driver).then(|| row.address())
    });
    // Callers may use the function without checking the status, so unknown names get a stand-in.
    newest.unwrap_or_else(|| stand_in(name))
}

pub(super) fn driver_entry_point(
    name: *const c_char,
    function: Out<usize>,
    _version: u32,
    _flags: u64,
    status: Out<c_int>,
) -> Answer {
    status.set_if_wanted(FOUND);
    function.set(driver_function(text(name).ok_or(Refusal::InvalidValue)?))
}

/// `cudaGetDriverEntryPoint` of CUDA 12, which takes no version.
pub(super) fn driver_entry_point_unversioned(
    name: *const c_char,
    function: Out<usize>,
    flags: u64,
    status: Out<c_int>,
) -> Answer {
    driver_entry_point(name, function, 0, flags, status)
}

/// `cuGetProcAddress_v2`.
pub(super) fn proc_address(
    name: *const c_char,
    function: Out<usize>,
    version: c_int,
    flags: u64,
    status: Out<c_int>,
) -> Answer {
    driver_entry_point(name, function, version as u32, flags, status)
}

/// `cuGetProcAddress` before CUDA 12.
pub(super) fn proc_address_v1(
    name: *const c_char,
    function: Out<usize>,
    _version: c_int,
    _flags: u64,
) -> Answer {
    function.set(driver_function(text(name).ok_or(Refusal::InvalidValue)?))
}

/// `cuGetExportTable`: private tables through which NVIDIA's own runtime verifies the driver. The phantom has none.
pub(super) fn export_table(table: Out<usize>, _id: usize) -> Answer {
    say_that_a_runtime_is_linked_statically();
    table.set_if_wanted(0);
    Err(Refusal::NotSupported)
}

/// Reports once that a program contains NVIDIA's runtime, statically linked.
fn say_that_a_runtime_is_linked_statically() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        say(
            "a library in this program statically links NVIDIA's runtime (CuPy's wheels do), which accepts only \
             NVIDIA's driver: it cannot run on a phantom GPU",
        );
    }
}
