//! Every call that the phantom answers, one file for each library. What a row says is all there is to a call: `calls!`
//! makes the exported function and the entry that lookups by name find.
//!
//! - `answer`: a function of this library answers, and its refusal becomes the library's number.
//! - `value`: the same for calls that return something else than a status.
//! - `create`: writes a new handle to where the first argument points.
//! - `zero`: writes 0 to where the argument of that number points, counted from 0 among those that are no floating-point
//!   numbers.
//! - `zeros`: the same for that argument and the next, which are sizes.
//! - `launch`: work of a library for the device, which is counted and not done.
//! - `succeed`: nothing is done, and that went well.
//! - `refuse`: the caller is told that it is not supported, and the user is told by name.

#[macro_use]
mod calls_macro;

mod blas;
mod dnn;
mod driver;
mod fft;
mod file;
mod nccl;
mod nvml;
mod nvshmem;
mod profiler;
mod runtime;
mod solver;
mod sparse;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::status::Library;

/// One call.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) library: Library,
    function: *const (),
}

// SAFETY: a pointer to a function may be used on any thread.
unsafe impl Sync for Row {}
// SAFETY: as above.
unsafe impl Send for Row {}

impl Row {
    /// The address of the function.
    pub(crate) fn address(&self) -> usize {
        self.function as usize
    }
}

/// Every row.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    let tables = [
        driver::ROWS,
        runtime::ROWS,
        nvml::ROWS,
        blas::ROWS,
        dnn::ROWS,
        solver::ROWS,
        sparse::ROWS,
        fft::ROWS,
        nccl::ROWS,
        file::ROWS,
        nvshmem::ROWS,
        profiler::ROWS,
    ];
    tables.into_iter().flatten()
}

/// The row of a name.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    static BY_NAME: OnceLock<HashMap<&str, &Row>> = OnceLock::new();
    BY_NAME.get_or_init(|| rows().map(|row| (row.name, row)).collect()).get(name).copied()
}
