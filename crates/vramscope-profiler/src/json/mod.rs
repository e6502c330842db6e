//! Results as JSON with gpumemprof's keys: each tool can read the other's files.

mod result;
mod snapshot;
mod summary;

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::profiler::{GpuMemoryProfiler, ProfileResult, ProfileSummary};
use crate::snapshot::MemorySnapshot;

/// A profiler's results, as gpumemprof's `save_results` writes them: one object with the keys `summary`, `results` and `snapshots`. Unknown
/// keys are ignored.
///
/// ```
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::{GpuMemoryProfiler, SavedResults};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
/// let profiler = GpuMemoryProfiler::on_pool(&pool, 0)?;
/// profiler.profile_function("step", || drop(pool.malloc(4096)));
///
/// let mut json = Vec::new();
/// profiler.saved_results().write(&mut json)?;
/// let saved = SavedResults::read(&json[..])?;
/// assert_eq!(saved.results, profiler.results());
/// assert_eq!(saved.results[0].peak_memory_usage(), Some(4096));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedResults {
    /// The summary of all calls. `None` if gpumemprof profiled nothing and wrote a message instead.
    #[serde(with = "summary::or_message")]
    pub summary: Option<ProfileSummary>,
    /// The result of each call.
    pub results: Vec<ProfileResult>,
    /// The snapshots of monitoring.
    #[serde(default)]
    pub snapshots: Vec<MemorySnapshot>,
}

impl GpuMemoryProfiler {
    /// Returns the summary, the results and the monitoring snapshots, as gpumemprof's `save_results` writes them.
    pub fn saved_results(&self) -> SavedResults {
        SavedResults {
            summary: Some(self.get_summary()),
            results: self.results(),
            snapshots: self.snapshots(),
        }
    }
}

/// The reason why JSON was not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JsonError {
    /// A value is missing or has the wrong type.
    #[error("{path}: {why}")]
    Value {
        /// The path, such as `results[3].memory_before.allocated_memory`; `.` is the whole value.
        path: String,
        /// The expected value, with line and column.
        why: String,
    },
    /// The reader failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SavedResults {
    /// Reads the output of [`write`](Self::write) or of gpumemprof's `save_results`.
    ///
    /// # Errors
    /// See [`JsonError`]: the path of the first wrong value, and the expected value.
    pub fn read(json: impl Read) -> Result<Self, JsonError> {
        from_json(json)
    }

    /// Writes the results as one JSON object.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        vramscope_report::write_json(out, self)
    }
}

/// Reads one value from JSON, such as a [`ProfileResult`] or a [`MemorySnapshot`]. An error names the path of the wrong value.
///
/// ```
/// use vramscope_profiler::{MemorySnapshot, from_json};
///
/// let json = r#"{"timestamp": 1764000000.5, "allocated_memory": 512, "operation": "before_step"}"#;
/// let snapshot: MemorySnapshot = from_json(json.as_bytes())?;
/// assert_eq!((snapshot.allocated_memory, snapshot.reserved_memory), (Some(512), None));
///
/// let wrong = json.replace("512", "\"many\"");
/// let error = from_json::<MemorySnapshot>(wrong.as_bytes()).unwrap_err();
/// assert!(error.to_string().starts_with("allocated_memory: invalid type: string \"many\", expected u64"));
/// # Ok::<(), vramscope_profiler::JsonError>(())
/// ```
///
/// # Errors
/// See [`JsonError`].
pub fn from_json<T: DeserializeOwned>(json: impl Read) -> Result<T, JsonError> {
    let mut reader = serde_json::Deserializer::from_reader(io::BufReader::new(json));
    let wrong = |path: String, why: serde_json::Error| match why.io_error_kind() {
        Some(_) => JsonError::Io(why.into()),
        None => JsonError::Value { path, why: why.to_string() },
    };
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| wrong(error.path().to_string(), error.into_inner()))?;
    reader.end().map_err(|why| wrong(".".to_owned(), why))?;
    Ok(value)
}

/// Converts microseconds to seconds, gpumemprof's unit of time. An `f64` is exact to the microsecond for 285 years.
fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

/// Converts seconds to whole microseconds; `None` if an `f64` of that size is not exact.
fn microseconds(seconds: f64) -> Option<i64> {
    let us = (seconds * 1e6).round();
    // Above 2^53, an `f64` cannot represent every integer.
    (us.abs() < 9e15).then_some(us as i64)
}
