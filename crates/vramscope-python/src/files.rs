//! Output files for the package's Python code (`python/vramscope/_files.py`).

use std::io;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use vramscope_files::Target;

/// A file that is written under a temporary name, or a pipe or device. `finish` moves the file to its final path; until then, a
/// former file stays unchanged.
#[pyclass(module = "vramscope._native")]
pub(crate) struct OutputFile {
    path: PathBuf,
    target: Option<Target>,
}

#[pymethods]
impl OutputFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let target = py.detach(|| Target::open(&path)).map_err(|e| os_error(&path, &e))?;
        Ok(Self { path, target: Some(target) })
    }

    /// A writable descriptor of the file. The caller closes it.
    #[cfg(unix)]
    fn descriptor(&self) -> PyResult<i32> {
        use std::os::fd::IntoRawFd as _;

        let target = self.target.as_ref().ok_or_else(|| PyOSError::new_err("the file is finished"))?;
        let file = target.file().try_clone().map_err(|e| os_error(&self.path, &e))?;
        Ok(file.into_raw_fd())
    }

    /// Flushes the file to disk and moves it to its final path.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(target) = self.target.take() else { return Ok(()) };
        py.detach(|| target.finish()).map_err(|e| os_error(&self.path, &e))
    }

    /// Removes the temporary file, unless it was finished.
    fn discard(&mut self) {
        self.target = None;
    }
}

/// Appends a trace of `torch.profiler` to a complete log.
#[pyfunction]
pub(crate) fn append_operators(py: Python<'_>, log: PathBuf, trace: PathBuf) -> PyResult<()> {
    py.detach(|| vramscope::trace::formats::log::append_operators(&log, &trace))
        .map_err(|e| os_error(&log, &e))
}

/// The error as a Python OSError, with its number, text and path.
pub(crate) fn os_error(path: &Path, error: &io::Error) -> PyErr {
    let words = error.to_string();
    os_error_that(path, error, words.split(" (os error ").next().unwrap_or_default())
}

/// The error as a Python OSError, with other words.
pub(crate) fn os_error_that(path: &Path, error: &io::Error, words: &str) -> PyErr {
    let number = error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::IsADirectory => libc::EISDIR,
        io::ErrorKind::NotFound => libc::ENOENT,
        _ => libc::EIO,
    });
    PyOSError::new_err((number, words.to_owned(), path.as_os_str().to_owned()))
}
