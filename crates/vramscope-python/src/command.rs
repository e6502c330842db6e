//! The command `vramscope`, as the package brings it.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command with these arguments, the name of the program first, and returns its exit code. The command line's help and
/// errors end the process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| vramscope_cli::run(arguments))
}
