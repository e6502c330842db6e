//! Rules that the Python profiler shares with the Rust profiler: leaks by function, tables of functions, out-of-memory
//! messages, memory outside of the pool, processes on a GPU, and files of results.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use serde::Serialize;
use vramscope::allocator::hooks::function::{FunctionSummary, Unit, UnknownUnit, write_table};
use vramscope::profiler::{
    self, DeviceMemory, HiddenMemory, HiddenOptions, ProcessMemory, Reading, Sample, SavedResults, Tick,
    nvml_devices as devices, out_of_memory_words as words,
};
use vramscope::report::write_json;

use crate::error::{ReadError, VramscopeError};

/// The JSON of an answer.
pub(crate) fn json(answer: &impl Serialize) -> PyResult<String> {
    let mut json = Vec::new();
    write_json(&mut json, answer)?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

/// Functions whose calls retain more and more memory, from readings before and after each call.
#[pyclass(module = "vramscope._native")]
#[derive(Default)]
pub(crate) struct FunctionLeaks(profiler::FunctionLeaks);

#[pymethods]
impl FunctionLeaks {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds an ended call: the bytes allocated before and after it, and the bytes of its returned values.
    fn record(&mut self, function_name: &str, before: u64, after: u64, returned: u64) {
        self.0.record(function_name, before, after, returned);
    }

    /// The suspects as JSON, most bytes first. `allocated` is the number of bytes allocated now.
    fn suspects(&self, allocated: u64) -> PyResult<String> {
        json(&self.0.suspects(allocated))
    }
}

/// Chainer's table of functions with their used and acquired bytes and their calls. KeyError for an unknown unit.
#[pyfunction]
pub(crate) fn function_table(rows: Vec<(String, u64, u64, u64)>, unit: &str) -> PyResult<String> {
    let unit: Unit = unit.parse().map_err(|error: UnknownUnit| PyKeyError::new_err(error.to_string()))?;
    let summary = rows.into_iter().map(|(function, used_bytes, acquired_bytes, occurrence)| {
        let function = function.into();
        FunctionSummary { function, used_bytes, acquired_bytes, occurrence, ..FunctionSummary::default() }
    });
    let mut table = Vec::new();
    write_table(&summary.collect::<Vec<_>>(), unit, &mut table)?;
    Ok(String::from_utf8_lossy(&table).into_owned())
}

/// The lowercase phrase of an error message that indicates an out-of-memory error, if any.
#[pyfunction]
pub(crate) fn out_of_memory_words(message: &str) -> Option<&'static str> {
    words(message)
}

/// One sample of a device: microseconds since the Unix epoch, then bytes: allocated, free within used segments (if known),
/// reserved, used by all processes, total.
type Look = (i64, u64, Option<u64>, u64, u64, u64);

/// The kinds of device memory outside of the pool, as JSON, from samples in time order.
#[pyfunction]
pub(crate) fn hidden_memory(looks: Vec<Look>) -> PyResult<String> {
    let sample = |(time_us, allocated, split, reserved, used, total): Look| {
        let now = Reading {
            // Everything reserved except fragments: whole cached segments go back to the device on demand.
            allocated: Some(split.map_or(allocated, |split| reserved.saturating_sub(split))),
            reserved: Some(reserved),
            device_used: Some(used),
            device_total: Some(total),
            ..Reading::default()
        };
        Sample { time_us, tick: Tick { now, high: now, high_is_exact: false }, missed: 0 }
    };
    let samples: Vec<Sample> = looks.into_iter().map(sample).collect();
    json(&HiddenMemory::of(&samples, HiddenOptions::default()))
}

/// The used and the total bytes of a GPU that shares the host's memory, from `/proc/meminfo`.
#[pyfunction]
pub(crate) fn host_device_memory() -> PyResult<(u64, u64)> {
    let memory = DeviceMemory::of_host().map_err(|error| VramscopeError::new_err(error.to_string()))?;
    Ok((memory.used, memory.total))
}

/// All GPUs with their processes from NVML, as JSON. The error says why NVML is not available.
#[pyfunction]
pub(crate) fn nvml_devices(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(devices).map_err(|error| VramscopeError::new_err(error.to_string()))?;
    json(&found)
}

/// This process's resident host memory in bytes; 0 if the system does not report it.
#[pyfunction]
pub(crate) fn resident_memory() -> u64 {
    ProcessMemory::of_this().and_then(|process| process.resident()).unwrap_or(0)
}

/// Checks that a text has the format of `save_results`. The error names the path of the first wrong value.
#[pyfunction]
pub(crate) fn check_saved_results(json: &str) -> PyResult<()> {
    SavedResults::read(json.as_bytes()).map(drop).map_err(|error| ReadError::new_err(error.to_string()))
}
