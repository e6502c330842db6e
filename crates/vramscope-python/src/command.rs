//! The `vramscope` command in the package.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Runs the command with these arguments, which start with the program's name, and returns its exit code. Help and argument
/// errors end the process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| vramscope_cli::run(arguments))
}

/// Whether a file's name implies a format other than a snapshot's plain pickle.
#[pyfunction]
pub(crate) fn names_another_format(file: PathBuf) -> bool {
    vramscope_cli::names_another_format(&file)
}
