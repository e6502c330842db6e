//! The command `vramscope`, as the package brings it.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use vramscope_cli::words;

/// Runs the command with these arguments, the name of the program first, and returns its exit code. The command line's help and
/// errors end the process.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| vramscope_cli::run(arguments))
}

/// Whether the name of a file promises another format than that of a snapshot, which is a plain pickle.
#[pyfunction]
pub(crate) fn names_another_format(file: PathBuf) -> bool {
    words::names_another_format(&file)
}
