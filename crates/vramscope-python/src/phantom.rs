//! `vramscope.phantom.run` and `vramscope.fit`: runs of programs on phantom GPUs.

use std::ffi::OsString;
use std::io;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use vramscope::analysis::Cancel;
use vramscope::fit::{Control, Ends, FitError, FitRequest, RunRequest, fit as search, run};

use crate::answers::{json, loads};
use crate::error::VramscopeError;
use crate::work::work;

/// Runs a program on phantom GPUs, and returns the JSON of `vramscope phantom run`. `options` are the other fields of the request, as JSON.
#[pyfunction]
pub(crate) fn phantom_run<'py>(
    py: Python<'py>,
    command: Vec<OsString>,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let request = RunRequest { command, stdout_to_stderr: true, ..parsed(options)? };
    answered(py, progress, move |caller| {
        let answer = run(&request, caller).map_err(text)?;
        answer.failure().map_or_else(|| json(&answer.json()), Err)
    })
}

/// Searches for changes with which a program fits, and returns the JSON of `vramscope fit`. `options` as for [`phantom_run`].
#[pyfunction]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    command: Vec<OsString>,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let request = FitRequest { command, ..parsed(options)? };
    answered(py, progress, move |caller| json(&search(&request, caller).map_err(text)?.json()))
}

fn parsed<T: DeserializeOwned>(options: &str) -> PyResult<T> {
    // Through a `Value`, because the errors of a text end with a position in it.
    let options: serde_json::Result<serde_json::Value> = serde_json::from_str(options);
    options.and_then(serde_json::from_value).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn text(error: FitError) -> String {
    // With the causes.
    format!("{error:#}")
}

fn answered<'py>(
    py: Python<'py>,
    progress: Option<Py<PyAny>>,
    answer: impl FnOnce(&Caller) -> Result<String, String> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>> {
    let json = work(py, None, move |steps| answer(&Caller { progress, cancel: steps.cancel.clone() }))?;
    loads(py, &json.map_err(VramscopeError::new_err)?)
}

/// Calls `progress` with each line. Ctrl-C ends the program and the search.
struct Caller {
    progress: Option<Py<PyAny>>,
    cancel: Cancel,
}

impl Control for Caller {
    fn say(&self, line: &str) {
        let Some(progress) = &self.progress else { return };
        Python::attach(|py| {
            if let Err(error) = progress.call1(py, (line,)) {
                error.write_unraisable(py, None);
            }
        });
    }

    fn ends(&self) -> io::Result<Ends> {
        let cancel = self.cancel.clone();
        Ok(Box::new(move || cancel.is_cancelled()))
    }

    fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }
}
