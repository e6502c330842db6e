//! Files that the package's Python writes (`python/vramscope/_files.py`).

use std::io;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use vramscope_files::Target;

/// A file being written under another name, or a pipe or a device. `finish` puts a file in its place; without it, the former file is
/// as it was.
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

    /// A descriptor of the file, open for writing, which the caller closes.
    #[cfg(unix)]
    fn descriptor(&self) -> PyResult<i32> {
        use std::os::fd::IntoRawFd as _;

        let target = self.target.as_ref().ok_or_else(|| PyOSError::new_err("the file is finished"))?;
        let file = target.file().try_clone().map_err(|e| os_error(&self.path, &e))?;
        Ok(file.into_raw_fd())
    }

    /// Puts the file in its place, once it is on the disk.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(target) = self.target.take() else { return Ok(()) };
        py.detach(|| target.finish()).map_err(|e| os_error(&self.path, &e))
    }

    /// Removes the file, where it is not in its place.
    fn discard(&mut self) {
        self.target = None;
    }
}

/// The error as Python has it, with its number, its words and the path.
pub(crate) fn os_error(path: &Path, error: &io::Error) -> PyErr {
    let number = error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::IsADirectory => libc::EISDIR,
        io::ErrorKind::NotFound => libc::ENOENT,
        _ => libc::EIO,
    });
    let words = error.to_string();
    let words = words.split(" (os error ").next().unwrap_or_default().to_owned();
    PyOSError::new_err((number, words, path.display().to_string()))
}
