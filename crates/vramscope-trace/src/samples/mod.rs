//! Logs of samples: periodic measurements of memory use, as written by `vramscope monitor` and by trackers.
//!
//! A log of samples has no allocations and no stacks, so it is not a [`Trace`](crate::Trace). Unknown values are `None`.

mod device_source;
mod quantity;
mod series;

pub use device_source::DeviceMemorySource;
pub use quantity::{Quantity, Values};
pub(crate) use series::Sample;
pub use series::{Highest, Look, PhaseSeen, Series};

/// A log of samples.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleLog {
    /// Format of the log.
    pub form: SampleForm,
    /// The monitored process or device, as the log names it.
    pub source: Option<String>,
    /// The program that wrote the log, if the log names it.
    pub collector: Option<String>,
    /// One series for each device and rank, in ascending order.
    pub series: Vec<Series>,
    /// Events between samples, in file order; at most the first [`SampleLog::MOST_EVENTS`].
    pub events: Vec<LogEvent>,
    /// Number of further events.
    pub more_events: u64,
    /// Results of the profiled functions with the highest peaks, from the same file, highest first.
    pub calls: Vec<Call>,
    /// How the log ends; `None` if it has no end record.
    pub ended: Option<LogEnd>,
    /// Parts of the file that could not be read.
    pub damage: LogDamage,
}

impl SampleLog {
    /// Maximum number of events to keep.
    pub const MOST_EVENTS: usize = 1000;
    /// Maximum number of functions to keep.
    pub const MOST_CALLS: usize = 1000;
}

/// Format of a log of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleForm {
    /// A CSV table with a header.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// A JSON list of objects.
    Json,
    /// Saved results of a profiler: a JSON object with a list of snapshots.
    SavedResults,
}

impl SampleForm {
    /// `samples_csv`, `samples_jsonl`, `samples_json` or `saved_results`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "samples_csv",
            Self::JsonLines => "samples_jsonl",
            Self::Json => "samples_json",
            Self::SavedResults => "saved_results",
        }
    }
}

/// An event between samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEvent {
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// The device, if the log has it.
    pub device: Option<i64>,
    /// The rank, if the log has it.
    pub rank: Option<i64>,
    /// Type of the event.
    pub kind: LogEventKind,
    /// Message of the program that wrote the log.
    pub message: String,
}

/// Types of events in a log of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogEventKind {
    /// Requests failed with out of memory.
    OutOfMemory,
    /// The allocator released its cache to serve a request.
    Retry,
    /// A threshold was exceeded.
    Alert,
    /// A threshold is no longer exceeded.
    Cleared,
    /// The watchdog released cached memory.
    Cleanup,
    /// The monitored process did not respond.
    Error,
    /// The monitored process no longer exists.
    Gone,
}

impl LogEventKind {
    /// Returns the event type's name in JSON, such as `oom`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "oom",
            Self::Retry => "retry",
            Self::Alert => "alert",
            Self::Cleared => "cleared",
            Self::Cleanup => "cleanup",
            Self::Error => "error",
            Self::Gone => "gone",
        }
    }
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEnd {
    /// The monitor stopped.
    Stopped,
    /// The monitored process ended.
    Gone,
}

/// Parts of a log that could not be read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LogDamage {
    /// Number of invalid rows, which were ignored.
    pub bad_rows: u64,
    /// Number of the first invalid row, from 1. It counts lines in JSON Lines and rows in other formats.
    pub first_bad_row: Option<u64>,
    /// Whether the file ends within a row: its writer was killed or is still writing.
    pub cut_off: bool,
    /// Number of rows whose time is before the previous row's: the clock was changed, or the file has several logs.
    pub unordered: u64,
    /// Number of samples of devices beyond the first thousand.
    pub left_out: u64,
}

/// Results of a profiler for the calls of one function.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Call {
    /// Name of the function.
    pub name: String,
    /// Number of results.
    pub calls: u64,
    /// Highest allocated bytes during a call.
    pub peak: Option<u64>,
    /// Retained bytes of all calls: allocated bytes after minus allocated bytes before.
    pub kept: i64,
}
