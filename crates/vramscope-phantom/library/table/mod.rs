//! Every call that the phantom implements, in one file per library. A row fully defines a call: `calls!` creates the exported
//! function and the entry for lookups by name.
//!
//! - `answer`: a Rust function implements the call. Its refusal becomes the library's status code.
//! - `value`: like `answer`, for calls that return a value instead of a status.
//! - `create`: writes a new handle through the first argument.
//! - `zero`: writes 0 through the argument with this index, counted from 0 and without floating-point arguments. If the name is that of a
//!   query for the size of a workspace, the user learns that it is left out.
//! - `zeros`: writes 0 through that argument and the next one; both are sizes.
//! - `launch`: counts a launch of device work, which is not executed. Before the names are their arguments, without floating-point ones: `p`
//!   may refer to device memory, as an address or as a descriptor with addresses, and `_` does not.
//! - `succeed`: does nothing and reports success.
//! - `refuse`: returns "not supported", and reports the call's name to the user.
//!
//! Two files have no rows. `entry_points` looks up the functions of other rows by name, and `links` redirects a program's links
//! to functions without a row. Some of their functions are themselves rows, so they are part of the table.

#[macro_use]
mod calls_macro;

mod blas;
mod dnn;
mod driver;
mod driver_refused;
mod entry_points;
mod fft;
mod file;
mod links;
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
    /// Whether the call returns "not supported".
    is_refused: bool,
    function: *const (),
}

// SAFETY: any thread may use a function pointer.
unsafe impl Sync for Row {}
// SAFETY: as above.
unsafe impl Send for Row {}

impl Row {
    /// The address of the function.
    pub(crate) fn address(&self) -> usize {
        self.function as usize
    }
}

/// All rows.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    let tables = [
        driver::ROWS,
        driver_refused::ROWS,
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

/// The row with a name.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    static BY_NAME: OnceLock<HashMap<&str, &Row>> = OnceLock::new();
    BY_NAME.get_or_init(|| rows().map(|row| (row.name, row)).collect()).get(name).copied()
}
