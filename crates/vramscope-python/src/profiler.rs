//! Rules that the Python profiler shares with the Rust profiler: detecting growth, out-of-memory messages, memory outside of
//! the pool, processes on a GPU, and files of results.

use pyo3::prelude::*;
use vramscope::analysis;
use vramscope::profiler::{
    DeviceMemory, HiddenMemory, HiddenOptions, ProcessMemory, Reading, Sample, SavedResults, Tick,
    nvml_devices as devices, out_of_memory_words as words,
};
use vramscope::report::write_json;

use crate::error::{ReadError, VramscopeError};

/// Whether a series of floors keeps growing. A floor is the minimum of a point and all later points.
#[pyfunction]
pub(crate) fn keeps_growing(floor: Vec<u64>) -> bool {
    analysis::keeps_growing(&floor)
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
    let mut json = Vec::new();
    write_json(&mut json, &HiddenMemory::of(&samples, HiddenOptions::default()))?;
    Ok(String::from_utf8_lossy(&json).into_owned())
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
    let mut json = Vec::new();
    write_json(&mut json, &found)?;
    Ok(String::from_utf8_lossy(&json).into_owned())
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
