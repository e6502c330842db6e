//! The summary of one recording: a few kilobytes of plain data. A fleet is computed from summaries alone.
//!
//! Field names are the JSON keys. Sizes are in bytes, times in microseconds since the Unix epoch; events are numbered from 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of [`RankSummary`]: cached summaries of other versions are recomputed.
pub const VERSION: u32 = 2;

/// The summary of one recording, for the device with the highest peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSummary {
    /// The format of the file, as `pickle`.
    pub format: String,
    /// The device with the highest peak of allocated bytes.
    pub device: i64,
    /// Further devices that the process used; this summary does not include them.
    pub other_devices: Vec<i64>,
    /// The number of recorded events of the device.
    pub events: usize,
    /// Time of the first event, if recorded.
    pub begin_us: Option<i64>,
    /// Time of the last event, if recorded.
    pub end_us: Option<i64>,
    /// The peak of allocated bytes.
    pub peak_allocated: PeakAt,
    /// The peak of reserved bytes.
    pub peak_reserved: PeakAt,
    /// Allocated bytes before the first event.
    pub preexisting_bytes: u64,
    /// The first failed request.
    pub oom: Option<Oom>,
    /// The number of failed requests.
    pub ooms: usize,
    /// Device memory available to the allocator, inferred from the first out-of-memory failure.
    pub capacity_bytes: Option<u64>,
    /// Holders at the peak of allocated bytes, by line.
    pub lines: Holders,
    /// Holders at that peak, by category.
    pub categories: Holders,
    /// Holders at that peak, by allocating module without inner modules; empty if no modules are recorded.
    pub layers: Holders,
    /// Leaking lines, most bytes first.
    pub leaks: Vec<Leak>,
    /// The number of lines beyond those in `leaks`.
    pub more_leaks: usize,
    /// Unused reserved memory at the peak of allocated bytes; `None` if no request is known.
    pub fragmentation_at_peak: Option<Unused>,
    /// Unused reserved memory at the peak of reserved bytes.
    pub fragmentation_at_most_reserved: Option<Unused>,
    /// The steps of training or serving, if the program repeats itself.
    pub steps: Option<StepsTold>,
    /// Allocated and reserved bytes over the run.
    pub course: Course,
    /// The PyTorch release, inferred from the recording.
    pub release: String,
    /// The allocator settings in force, by their keys in `PYTORCH_CUDA_ALLOC_CONF`; `None` if none are recorded.
    pub settings: Option<BTreeMap<String, String>>,
    /// The recorded program.
    pub program: Program,
    /// Whether allocated bytes are exact, and not partly inferred.
    pub is_exact: bool,
    /// Whether the oldest events were probably dropped, so that the peak may have been higher.
    pub events_dropped: bool,
    /// The limitations of the numbers, one sentence each.
    pub doubts: Vec<String>,
    /// Contents of the file that were not used, one line each.
    pub notices: Vec<String>,
}

/// The peak of a counter, and its first occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakAt {
    /// The peak.
    pub bytes: u64,
    /// The event index of the peak; `None` if nothing rose above the start.
    pub event: Option<usize>,
    /// Time of that event, if recorded.
    pub time_us: Option<i64>,
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oom {
    /// The event index.
    pub event: usize,
    /// Time of the event, if recorded.
    pub time_us: Option<i64>,
    /// The requested bytes, after rounding.
    pub requested_bytes: u64,
    /// Free device memory according to the driver.
    pub device_free_bytes: u64,
    /// Bytes in allocated blocks.
    pub allocated_bytes: u64,
    /// Reserved bytes of the allocator.
    pub reserved_bytes: u64,
    /// Whether the free device memory and the unused reserved memory together would have been enough.
    pub enough_in_total: bool,
    /// Whether the device had room for the request, and a limit on reserved bytes prevented it.
    pub at_limit: bool,
    /// The requesting line.
    pub line: Option<String>,
    /// The verdict of the report, in a sentence.
    pub verdict: String,
    /// What to change, in sentences.
    pub remedy: Option<String>,
}

/// Groups of allocations, most bytes first; their sum is exactly the allocated bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holders {
    /// The groups with the most bytes.
    pub top: Vec<Held>,
    /// Bytes of all other groups together.
    pub rest_bytes: u64,
    /// The number of these groups.
    pub rest_groups: usize,
}

impl Holders {
    /// Upper bound on the bytes of one group of the rest.
    pub fn most_of_rest(&self) -> u64 {
        let last = self.top.last().map_or(u64::MAX, |held| held.bytes);
        self.rest_bytes.min(last)
    }
}

/// A group of allocations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its name in reports.
    pub name: String,
    /// An identifier across recordings of different hosts: for a line, the path of its file, the line number and the function.
    /// `None` if the name is the identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Whether it was live before recording began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preexisting: bool,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// The number of its blocks.
    pub count: u64,
}

/// A line that is suspected of a leak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// Its name in reports.
    pub name: String,
    /// An identifier as [`Held::place`].
    pub place: Option<String>,
    /// The number of its allocations that were never freed.
    pub kept: u64,
    /// Bytes of these allocations.
    pub kept_bytes: u64,
    /// Average bytes of these per step; `None` if no steps are known.
    pub bytes_a_step: Option<u64>,
}

/// Reserved memory that is not in use at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unused {
    /// The event index; `None` before the first event.
    pub event: Option<usize>,
    /// Reserved bytes of the allocator.
    pub reserved_bytes: u64,
    /// Bytes lost to rounding inside blocks.
    pub internal_bytes: u64,
    /// Bytes between blocks: reserved and free.
    pub external_bytes: u64,
    /// The part of `external_bytes` in whole segments, which the allocator can release when needed.
    pub whole_segments_bytes: u64,
    /// The part of `external_bytes` that one more of the run's largest requests cannot use.
    pub unusable_bytes: u64,
}

/// The steps of a program that repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepsTold {
    /// The number of steps.
    pub count: usize,
    /// Duration of the typical step in microseconds, if times are recorded.
    pub typical_us: Option<i64>,
    /// The peak of allocated bytes in the typical step.
    pub typical_peak_bytes: u64,
}

/// Peaks over equal parts of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// The axis that is divided into equal parts.
    pub over: Over,
    /// The peak of allocated bytes in each of the [`CELLS`] parts.
    pub allocated_bytes: Vec<u64>,
    /// The peak of reserved bytes in each part.
    pub reserved_bytes: Vec<u64>,
}

/// The number of parts of a [`Course`].
pub const CELLS: usize = 128;

/// The part that contains `at`, for positions from 0 to `all`.
pub(crate) fn cell(at: u64, all: u64) -> usize {
    (u128::from(at) * CELLS as u128 / (u128::from(all) + 1)) as usize
}

impl RankSummary {
    /// The part of its [`Course`] with the first out-of-memory failure; `None` without a failure, or if its time is unknown.
    #[must_use]
    pub fn oom_cell(&self) -> Option<usize> {
        let oom = self.oom.as_ref()?;
        match self.course.over {
            Over::Time => {
                let begin = self.begin_us?;
                let (at, all) = (oom.time_us?.abs_diff(begin), self.end_us?.abs_diff(begin));
                Some(cell(at.min(all), all))
            }
            Over::Events => Some(cell(oom.event as u64, self.events.checked_sub(1)? as u64)),
        }
    }
}

/// The axis of a [`Course`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The time from the first event to the last.
    Time,
    /// The events, where no times were recorded.
    Events,
}

/// The program of a recording, identified by its user lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The number of lines of user code in its stacks.
    pub lines: usize,
    /// The smallest hashes of these lines, sorted: programs that share many lines also share some of these hashes.
    pub sketch: Vec<u64>,
    /// Hashes of its functions, which stay the same if an edit moves lines.
    pub functions: Vec<u64>,
    /// The names of some of its files, most lines first.
    pub files: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn parts_are_equal() {
        assert_eq!([cell(0, 0), cell(0, 9), cell(9, 9)], [0, 0, 115]);
        assert_eq!([cell(0, 127), cell(126, 127), cell(127, 127)], [0, 126, 127]);
        assert_eq!(cell(u64::MAX, u64::MAX), 127);
    }
}
