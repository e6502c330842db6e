//! Parses and formats sizes as the command does.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use vramscope::units;

/// The bytes of a size such as `24GiB`. The ValueError says why a text is invalid.
#[pyfunction]
pub(crate) fn parse_bytes(text: &str) -> PyResult<u64> {
    units::parse_bytes(text).map_err(|why| PyValueError::new_err(why.to_string()))
}

/// Bytes as text: `512 B`, `1.50 MiB`. Numbers below 0 are 0.
#[pyfunction]
pub(crate) fn format_bytes(n: f64) -> String {
    units::bytes(n as u64)
}
