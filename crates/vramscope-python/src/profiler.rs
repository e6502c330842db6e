//! The rules that the Python profiler shares with the one for Rust: what keeps growing, what an error says of memory, which kind of
//! memory lies outside of the pool, who is on a GPU, and what a file of results must hold.

use pyo3::prelude::*;
use vramscope::analysis;
use vramscope::profiler::{
    HiddenMemory, HiddenOptions, Reading, Sample, SavedResults, Tick, nvml_devices as devices,
    out_of_memory_words as words,
};
use vramscope::report::write_json;

use crate::error::{ReadError, VramscopeError};

/// Whether a floor, the least of each point of a series and all that come later, keeps growing.
#[pyfunction]
pub(crate) fn keeps_growing(floor: Vec<u64>) -> bool {
    analysis::keeps_growing(&floor)
}

/// The words in the message of an error that show an out of memory, in small letters.
#[pyfunction]
pub(crate) fn out_of_memory_words(message: &str) -> Option<&'static str> {
    words(message)
}

/// One look at a device: microseconds since the Unix epoch, and the bytes allocated, free in segments in use where that is known,
/// reserved, in use by anyone, and in all.
type Look = (i64, u64, Option<u64>, u64, u64, u64);

/// What device memory outside of the pool is, as JSON, of looks in the order of time.
#[pyfunction]
pub(crate) fn hidden_memory(looks: Vec<Look>) -> PyResult<String> {
    let sample = |(time_us, allocated, split, reserved, used, total): Look| {
        let now = Reading {
            // All of what is reserved that fragments do not take: whole segments that are cached go back to the device on demand.
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

/// All GPUs with the processes on them, as NVML knows them, as JSON. The error says why it knows nothing.
#[pyfunction]
pub(crate) fn nvml_devices(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(devices).map_err(|error| VramscopeError::new_err(error.to_string()))?;
    let mut json = Vec::new();
    write_json(&mut json, &found)?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

/// Checks that a text is what `save_results` writes; the error names the path of the first value that is wrong.
#[pyfunction]
pub(crate) fn check_saved_results(json: &str) -> PyResult<()> {
    SavedResults::read(json.as_bytes()).map(drop).map_err(|error| ReadError::new_err(error.to_string()))
}
