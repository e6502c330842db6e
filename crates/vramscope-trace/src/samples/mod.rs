//! Logs of samples: what was in use, looked at again and again, as `vramscope monitor` and trackers write them.
//!
//! They know no allocation and no stack, and so they are no [`Trace`](crate::Trace). What a log does not know is `None`.

mod quantity;
mod series;

pub use quantity::{Quantity, Values};
pub(crate) use series::Sample;
pub use series::{Highest, Look, PhaseSeen, Series};

/// A log of samples.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleLog {
    /// Its form.
    pub form: SampleForm,
    /// What was watched, as the log names it.
    pub source: Option<String>,
    /// The program that wrote it, where the log names one.
    pub collector: Option<String>,
    /// One for each device and rank, in the order of their numbers.
    pub series: Vec<Series>,
    /// What happened meanwhile, in the order of the file; the first [`SampleLog::MOST_EVENTS`].
    pub events: Vec<LogEvent>,
    /// How many events there are beyond those.
    pub more_events: u64,
    /// Results of profiled functions that lie in the same file: those with the highest peaks, highest first.
    pub calls: Vec<Call>,
    /// How the log ends; `None` where it just stops.
    pub ended: Option<LogEnd>,
    /// What of the file could not be read.
    pub damage: LogDamage,
}

impl SampleLog {
    /// The most events that are kept.
    pub const MOST_EVENTS: usize = 1000;
    /// The most functions that are kept.
    pub const MOST_CALLS: usize = 1000;
}

/// The form of a log of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleForm {
    /// A table with a header.
    Csv,
    /// A JSON object in each line.
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

/// Something that happened while samples were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEvent {
    /// When, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// The device, where the log says it.
    pub device: Option<i64>,
    /// The rank, where the log says it.
    pub rank: Option<i64>,
    /// What happened.
    pub kind: LogEventKind,
    /// In the words of who wrote the log.
    pub message: String,
}

/// The kinds of what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogEventKind {
    /// Requests failed because they were out of memory.
    OutOfMemory,
    /// The allocator gave its cache back to serve a request.
    Retry,
    /// A threshold was crossed.
    Alert,
    /// The alert of a threshold is over.
    Cleared,
    /// The watchdog gave cached memory back.
    Cleanup,
    /// What was watched did not answer.
    Error,
    /// What was watched is not there any more.
    Gone,
}

impl LogEventKind {
    /// Its name in JSON, as `oom`.
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
    /// Whoever watched stopped.
    Stopped,
    /// What was watched has ended.
    Gone,
}

/// What of a log could not be read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LogDamage {
    /// Rows that make no sense and were left out.
    pub bad_rows: u64,
    /// The number of the first of them, from 1; a line of JSON Lines, a row of other forms.
    pub first_bad_row: Option<u64>,
    /// The file stops within a row: its writer was killed, or still writes.
    pub cut_off: bool,
    /// Rows whose time is before that of the row before: a clock that was set, or several logs in one file.
    pub unordered: u64,
    /// Samples of devices beyond the first thousand.
    pub left_out: u64,
}

/// What a profiler saved of the calls of one function.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// How many results there are of it.
    pub calls: u64,
    /// The highest allocated bytes during any of them.
    pub peak: Option<u64>,
    /// What they left behind, summed: allocated after without allocated before.
    pub kept: i64,
}
