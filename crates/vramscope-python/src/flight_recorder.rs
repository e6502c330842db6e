//! Bundles of the Python profiler, written by `vramscope-profiler`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Value};
use vramscope::profiler::{self, Bundle, BundleEvent, BundleMetadata, ProgramFacts};
use vramscope_files::make_folder;

use crate::error::VramscopeError;
use crate::files::os_error;

/// The folder of a flight recorder, which keeps at most `max_bundles` bundles with at most `max_total_bytes` bytes in total.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct BundleFolder {
    folder: profiler::BundleFolder,
}

#[pymethods]
impl BundleFolder {
    #[new]
    fn new(path: PathBuf, max_bundles: usize, max_total_bytes: u64) -> Self {
        Self { folder: profiler::BundleFolder::new(path, max_bundles, max_total_bytes) }
    }

    /// Writes a bundle. Creates the folder if it is missing. Returns the bundle's path, and the error of removing an older bundle, if any.
    #[allow(clippy::too_many_arguments, reason = "all are keywords")]
    #[pyo3(signature = (*, reason, exception, context, backend, metadata, events, program, snapshot))]
    fn write(
        &self,
        py: Python<'_>,
        reason: String,
        exception: Option<Bound<'_, PyAny>>,
        context: Option<String>,
        backend: String,
        metadata: Bound<'_, PyDict>,
        events: Vec<Bound<'_, PyDict>>,
        program: Bound<'_, PyDict>,
        snapshot: Option<&[u8]>,
    ) -> PyResult<(PathBuf, Option<String>)> {
        let program = serde_json::from_value(Value::Object(plain_dict(&program, MOST_NESTED)));
        let program: ProgramFacts = program.map_err(|error| VramscopeError::new_err(error.to_string()))?;
        let class = exception.as_ref().map(Bound::get_type);
        let class_text =
            |name| class.as_ref().and_then(|class| class.getattr(name).ok()).map(|name| text(&name));
        let metadata = BundleMetadata {
            reason,
            exception_type: class_text("__name__"),
            exception_module: class_text("__module__"),
            exception_message: exception.as_ref().map(text),
            context,
            backend: Some(backend),
            captured_event_count: Some(events.len()),
            custom_metadata: plain_dict(&metadata, MOST_NESTED).into_iter().collect(),
        };
        let events = events.iter().map(|event| row(plain_dict(event, MOST_NESTED))).collect();
        let bundle = Bundle { metadata, events, program, snapshot: snapshot.map(<[u8]>::to_vec) };
        let path = self.folder.path();
        let written = py.detach(|| make_folder(path).and_then(|()| self.folder.write(bundle)));
        let written = written.map_err(|error| os_error(path, &error))?;
        Ok((written.path, written.removal_error))
    }
}

/// The keys of a Python tracker's events, and their columns in the log of the Rust tracker.
const COLUMNS: [(&str, &str); 7] = [
    ("event_type", "event"),
    ("context", "message"),
    ("memory_allocated", "allocated_bytes"),
    ("active_memory", "active_bytes"),
    ("memory_reserved", "reserved_bytes"),
    ("device_used", "device_used_bytes"),
    ("device_total", "device_total_bytes"),
];

/// An event as a row of a tracker's log. Keys without a column keep their names; keys without a value are left out.
fn row(mut event: Map<String, Value>) -> BundleEvent {
    let mut cells = Vec::new();
    let mut add = |column: &str, value: Value| {
        if !value.is_null() {
            cells.push((column.to_owned(), value));
        }
    };
    if let Some(seconds) = event.get("timestamp").and_then(Value::as_f64)
        && !event.contains_key("time_us")
    {
        event.remove("timestamp");
        add("time_us", ((seconds * 1e6).round() as i64).into());
    }
    for (key, column) in COLUMNS {
        if !event.contains_key(column) {
            add(column, event.remove(key).unwrap_or_default());
        }
    }
    if let Some(Value::Object(mut details)) = event.remove("metadata") {
        add("high_allocated_bytes", details.remove("high_allocated_bytes").unwrap_or_default());
        if let Some(phases) = details.remove("phases") {
            add("phase", joined(&phases, " | "));
        }
        if let Some(scope) = details.get("phase_scope") {
            let number = |key: &str| {
                let number = scope[key].as_str().and_then(|number| number.parse::<u64>().ok());
                number.map_or_else(|| scope[key].clone(), Value::from)
            };
            add("phase", joined(&scope["path"], " / "));
            add("phase_scope", number("scope_id"));
            add("phase_parent_scope", number("parent_scope_id"));
            add("thread", scope["thread_name"].clone());
        }
        if !details.is_empty() {
            add("metadata", details.into());
        }
    }
    event.into_iter().for_each(|(key, value)| add(&key, value));
    BundleEvent(cells)
}

/// The texts of a list as one text; other values unchanged.
fn joined(values: &Value, separator: &str) -> Value {
    let texts = values.as_array().map(|values| values.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    texts.flatten().map_or_else(|| values.clone(), |texts| texts.join(separator).into())
}

/// Nested containers deeper than this become text. A container may contain itself.
const MOST_NESTED: usize = 32;

/// A Python value as JSON. Values that JSON does not have become text.
fn plain(value: &Bound<'_, PyAny>, depth: usize) -> Value {
    let deeper = depth.checked_sub(1);
    if value.is_none() {
        Value::Null
    } else if let Ok(flag) = value.cast::<PyBool>() {
        flag.is_true().into()
    } else if value.is_instance_of::<PyInt>() {
        let number =
            value.extract::<i64>().map(Value::from).or_else(|_| value.extract::<u64>().map(Value::from));
        number.unwrap_or_else(|_| text(value).into())
    } else if let Ok(number) = value.cast::<PyFloat>() {
        serde_json::Number::from_f64(number.value()).map_or_else(|| text(value).into(), Value::from)
    } else if let (Ok(dict), Some(depth)) = (value.cast::<PyDict>(), deeper) {
        plain_dict(dict, depth).into()
    } else if let (Ok(list), Some(depth)) = (value.cast::<PyList>(), deeper) {
        list.iter().map(|item| plain(&item, depth)).collect()
    } else if let (Ok(tuple), Some(depth)) = (value.cast::<PyTuple>(), deeper) {
        tuple.iter().map(|item| plain(&item, depth)).collect()
    } else {
        text(value).into()
    }
}

fn plain_dict(dict: &Bound<'_, PyDict>, depth: usize) -> Map<String, Value> {
    // A copy: `str` of a value may change the dictionary.
    let items = dict.items();
    let pairs = items.iter().filter_map(|item| item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().ok());
    pairs.map(|(key, value)| (text(&key), plain(&value, depth))).collect()
}

/// A value as text; the name of its class if it has no text.
fn text(value: &Bound<'_, PyAny>) -> String {
    let of = |text: Bound<'_, PyString>| text.to_string_lossy().into_owned();
    value.str().or_else(|_| value.get_type().name()).map(of).unwrap_or_default()
}
