//! Converts answers to Python data: dictionaries with the keys of `--json`.

use std::collections::HashMap;
use std::fmt;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::VramscopeError;

/// Serializes an answer as JSON, with its keys in order.
pub(crate) fn json(answer: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(answer).map_err(|e| e.to_string())
}

/// Parses JSON into dictionaries, lists, texts and numbers.
///
/// Python's own `json` module would give the same result, but its import takes longer than analyzing a large recording.
pub(crate) fn loads<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    let mut json = serde_json::Deserializer::from_str(json);
    PythonData(py).deserialize(&mut json).map_err(|e| VramscopeError::new_err(e.to_string()))
}

/// Builds Python data from deserialized values.
#[derive(Clone, Copy)]
struct PythonData<'py>(Python<'py>);

impl<'de, 'py> DeserializeSeed<'de> for PythonData<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for PythonData<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.0.None().into_bound(self.0))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(PyBool::new(self.0, value).to_owned().into_any())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(PyInt::new(self.0, value).into_any())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(PyInt::new(self.0, value).into_any())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(PyFloat::new(self.0, value).into_any())
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(PyString::new(self.0, value).into_any())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let list = PyList::empty(self.0);
        while let Some(item) = items.next_element_seed(self)? {
            list.append(item).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.0);
        while let Some(key) = entries.next_key::<String>()? {
            // The rows of a list share their keys.
            let key = PyString::intern(self.0, &key);
            dict.set_item(key, entries.next_value_seed(self)?).map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}

/// The answers of `report --json` for one device: JSON by key.
#[derive(Debug, Deserialize)]
pub(crate) struct DeviceAnswers(HashMap<String, Box<RawValue>>);

impl DeviceAnswers {
    /// Extracts the answers for the only device of a `report --json` document.
    pub(crate) fn of(report: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Report {
            devices: [DeviceAnswers; 1],
        }
        let Report { devices: [device] } = serde_json::from_str(report).map_err(|e| e.to_string())?;
        Ok(device)
    }

    /// The answer for a key.
    pub(crate) fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let answer = self.0.get(key).ok_or_else(|| PyKeyError::new_err(key.to_owned()))?;
        loads(py, answer.get())
    }
}

/// An error that the user's arguments did not cause.
pub(crate) fn failed(name: &str, why: impl std::fmt::Display) -> PyErr {
    VramscopeError::new_err(format!("{name}: {why}"))
}
