//! Reads recordings that the user names.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use pyo3::exceptions::{PyIsADirectoryError, PyOSError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use vramscope::analysis::Cancel;
use vramscope::trace::ReadError;
use vramscope::trace::formats::{ReadOptions, Recording, is_worth_a_thread, read_ahead, read_with};

use crate::error;
use crate::work::{Steps, work};

/// The source of a recording.
#[derive(FromPyObject)]
pub(crate) enum Origin {
    #[pyo3(transparent)]
    Bytes(PyBackedBytes),
    #[pyo3(transparent)]
    File(PathBuf),
}

/// A reader that fails after a cancellation.
struct Wanted<R> {
    stream: R,
    cancel: Cancel,
}

impl<R: Read> Read for Wanted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("no longer wanted"));
        }
        self.stream.read(out)
    }
}

/// Reads a recording. `name` is its name in errors.
pub(crate) fn read(
    py: Python<'_>,
    origin: Origin,
    name: &str,
    expanded_bytes: Option<u64>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Recording> {
    let options = ReadOptions { expanded_bytes, ..ReadOptions::default() };
    let recording = match origin {
        Origin::Bytes(bytes) => work(py, progress, move |steps| {
            let stream = Wanted { stream: &bytes[..], cancel: steps.cancel.clone() };
            read_ahead(options, stream, &mut |bytes| steps.at(bytes))
        })?,
        Origin::File(path) => {
            let file = open(&path)?;
            work(py, progress, move |steps| of_file(options, &file, steps))?
        }
    };
    recording.map_err(|e| error::ReadError::new_err(format!("{name}: {}", remedied(&e))))
}

fn of_file(options: ReadOptions, file: &File, steps: &Steps) -> Result<Recording, ReadError> {
    let stream = Wanted { stream: file, cancel: steps.cancel.clone() };
    let progress = &mut |bytes| steps.at(bytes);
    if is_worth_a_thread(file) {
        read_ahead(options, stream, progress)
    } else {
        read_with(options, stream, progress)
    }
}

/// Opens a file. Failures raise Python's own errors.
fn open(path: &PathBuf) -> PyResult<File> {
    let refused = |e: io::Error| match e.raw_os_error() {
        // From the error number, Python selects the class: FileNotFoundError, PermissionError ...
        Some(number) => {
            let text = e.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, text, path.clone()))
        }
        None => e.into(),
    };
    let file = File::open(path).map_err(refused)?;
    if file.metadata().map_err(refused)?.is_dir() {
        return Err(PyIsADirectoryError::new_err(format!(
            "{}: is a directory; name a recording in it",
            path.display()
        )));
    }
    Ok(file)
}

/// Adds the remedy for a Python program to `error`.
fn remedied(error: &ReadError) -> String {
    match error {
        ReadError::Expands { .. } => format!("{error}, or give a larger `max_expanded`"),
        _ => error.to_string(),
    }
}
