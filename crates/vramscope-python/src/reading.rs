//! Reads recordings that the user names.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use vramscope::trace::ReadError;
use vramscope::trace::formats::{ReadOptions, Reader, Recording};

use crate::error;
use crate::files::os_error_that;
use crate::work::work;

/// The source of a recording.
#[derive(FromPyObject)]
pub(crate) enum Origin {
    #[pyo3(transparent)]
    Bytes(PyBackedBytes),
    #[pyo3(transparent)]
    File(PathBuf),
}

/// Reads a recording. `name` is its name in errors.
pub(crate) fn read(
    py: Python<'_>,
    origin: Origin,
    name: &str,
    expanded_bytes: Option<u64>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Recording> {
    // Pages of the recording have a log as a log.
    let options = ReadOptions { expanded_bytes, keeps_log: true, ..ReadOptions::default() };
    let recording = work(py, progress, move |steps| {
        let cancel = steps.cancel.clone();
        let reader = match &origin {
            Origin::Bytes(bytes) => Reader::ahead(&bytes[..]),
            Origin::File(path) => Reader::open(path)?,
        };
        let reader = reader.options(options).progress(|bytes| steps.at(bytes));
        reader.cancel(move || cancel.is_cancelled()).read()
    })?;
    recording.map_err(|error| match error {
        // Python's own errors: FileNotFoundError, PermissionError ...
        ReadError::Open { path, why, error } => os_error_that(&path, &error, &why),
        error => error::ReadError::new_err(format!("{name}: {}", remedied(&error))),
    })
}

/// Adds the remedy for a Python program to `error`.
fn remedied(error: &ReadError) -> String {
    match error {
        ReadError::Expands { .. } => format!("{error}, or give a larger `max_expanded`"),
        _ => error.to_string(),
    }
}
