//! [`Row`]: one row of a log of samples.

use crate::samples::{DeviceMemorySource, Values};

/// A sample or an event. Missing values are `None` or empty.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) time_us: Option<i64>,
    /// Empty if each row is a sample.
    pub(super) event: String,
    pub(super) message: String,
    pub(super) collector: String,
    pub(super) device: Option<i64>,
    pub(super) rank: Option<i64>,
    pub(super) now: Values,
    pub(super) high: Values,
    pub(super) high_is_exact: bool,
    pub(super) device_total: Option<u64>,
    pub(super) device_source: Option<DeviceMemorySource>,
    /// Counters since the creation of the pool.
    pub(super) ooms: Option<u64>,
    pub(super) retries: Option<u64>,
    pub(super) missed: u64,
    pub(super) phases: Vec<String>,
    /// Whether the event is an out of memory.
    pub(super) is_out_of_memory: bool,
}
