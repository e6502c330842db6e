//! Lookup of the table's functions by name.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use super::find;
use crate::asks;
use crate::machine::say;
use crate::objects::is_nvidias;
use crate::out::{Out, text};
use crate::status::{Answer, Library, Refusal};
use crate::unknown::stand_in;

/// The function was found: `cudaDriverEntryPointQueryResult`, `CUdriverProcAddressQueryResult`.
const FOUND: c_int = 0;

/// The driver's function for a name. Programs omit the revision suffix, so this returns the newest revision that the phantom implements.
fn driver_function(name: &str) -> usize {
    let revisions = ["_v4", "_v3", "_v2", ""].map(|revision| find(&format!("{name}{revision}")));
    let rows = || revisions.iter().flatten().filter(|row| row.library == Library::Driver);
    let newest = rows().find(|row| !row.is_refused).or_else(|| rows().next());
    // Callers may use the function without checking the status, so unknown names get a stand-in.
    newest.map_or_else(|| stand_in(name), |row| row.address())
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
    say_whose_runtime_fails();
    table.set_if_wanted(0);
    Err(Refusal::NotSupported)
}

/// Reports once that a library of the program contains NVIDIA's runtime. NVIDIA's own libraries do, too, but the phantom replaces them.
fn say_whose_runtime_fails() {
    static SAID: AtomicBool = AtomicBool::new(false);
    let path = asks::caller().unwrap_or_default();
    if !is_nvidias(&path) && !SAID.swap(true, Ordering::Relaxed) {
        let name = if path.is_empty() { "a library" } else { &path };
        say(&format!(
            "{name} contains NVIDIA's runtime, which accepts only NVIDIA's driver: what it calls through this runtime fails"
        ));
    }
}
