//! Answers as Python's own data: dictionaries with the keys of `--json`.

use std::collections::HashMap;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::VramscopeError;

/// An answer as JSON, in the order of its keys.
pub(crate) fn json(answer: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(answer).map_err(|e| e.to_string())
}

/// JSON as dictionaries, lists, texts and numbers.
pub(crate) fn loads<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}

/// What `report --json` says of one device, by key, each as JSON.
#[derive(Debug, Deserialize)]
pub(crate) struct DeviceAnswers(HashMap<String, Box<RawValue>>);

impl DeviceAnswers {
    /// What `report --json` says of its only device.
    pub(crate) fn of(report: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Report {
            devices: [DeviceAnswers; 1],
        }
        let Report { devices: [device] } = serde_json::from_str(report).map_err(|e| e.to_string())?;
        Ok(device)
    }

    /// The answer of this key.
    pub(crate) fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let answer = self.0.get(key).ok_or_else(|| PyKeyError::new_err(key.to_owned()))?;
        loads(py, answer.get())
    }
}

/// What went wrong beside what the user gave.
pub(crate) fn failed(name: &str, why: impl std::fmt::Display) -> PyErr {
    VramscopeError::new_err(format!("{name}: {why}"))
}
