//! What is kept of one recording: a few kilobytes of plain data, from which a fleet is answered without the recording.
//!
//! Names of fields are those of the JSON; sizes are bytes, times microseconds since the Unix epoch, and events are numbered
//! from 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of [`RankSummary`]: a summary of another one is made again.
pub const VERSION: u32 = 1;

/// What one recording says, of the device that used most where it has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSummary {
    /// The form of the file, as `pickle`.
    pub format: String,
    /// The device with the highest peak of allocated bytes.
    pub device: i64,
    /// Further devices that the process used, which nothing here is of.
    pub other_devices: Vec<i64>,
    /// Events recorded of the device.
    pub events: usize,
    /// When the first of them happened, where recorded.
    pub begin_us: Option<i64>,
    /// When the last of them happened.
    pub end_us: Option<i64>,
    /// The highest allocated bytes.
    pub peak_allocated: PeakAt,
    /// The highest reserved bytes.
    pub peak_reserved: PeakAt,
    /// Allocated bytes before the first event.
    pub preexisting_bytes: u64,
    /// The first request that failed.
    pub oom: Option<Oom>,
    /// How many requests failed.
    pub ooms: usize,
    /// What the allocator could have of the device, as far as the recording shows it: where it first ran out of memory.
    pub capacity_bytes: Option<u64>,
    /// Who held the allocated bytes at their peak, by line.
    pub lines: Holders,
    /// The same by category.
    pub categories: Holders,
    /// The same by the module that made it, without the modules inside it; empty where the recording knows no modules.
    pub layers: Holders,
    /// Lines whose allocations pile up, most bytes first.
    pub leaks: Vec<Leak>,
    /// Lines beyond those in `leaks`.
    pub more_leaks: usize,
    /// What is reserved and free at the peak of allocated bytes; `None` where no request is known to tell it for.
    pub fragmentation_at_peak: Option<Unused>,
    /// The same at the peak of reserved bytes, where it costs most.
    pub fragmentation_at_most_reserved: Option<Unused>,
    /// The steps of training or serving, where the program repeats itself.
    pub steps: Option<StepsTold>,
    /// Allocated and reserved bytes over the run.
    pub course: Course,
    /// The release of PyTorch, as far as its rules can be told.
    pub release: String,
    /// The settings of the allocator that held, by their keys in `PYTORCH_CUDA_ALLOC_CONF`; `None` where the recording names none.
    pub settings: Option<BTreeMap<String, String>>,
    /// Which program it was.
    pub program: Program,
    /// Allocated bytes are exact, and not partly inferred.
    pub is_exact: bool,
    /// The oldest events were probably dropped: the peak may have been higher.
    pub events_dropped: bool,
    /// Why numbers may not be exact, a sentence each.
    pub doubts: Vec<String>,
    /// What of the file did not reach the answers, a line each.
    pub notices: Vec<String>,
}

/// The highest value of a counter, and where it was first so high.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakAt {
    /// The highest value.
    pub bytes: u64,
    /// The last event before; `None` where nothing rose above the start.
    pub event: Option<usize>,
    /// When that event happened, where recorded.
    pub time_us: Option<i64>,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Oom {
    /// The number of the event.
    pub event: usize,
    /// When it happened, where recorded.
    pub time_us: Option<i64>,
    /// What was asked for, after rounding.
    pub requested_bytes: u64,
    /// What the driver still had free.
    pub device_free_bytes: u64,
    /// What was in allocated blocks.
    pub allocated_bytes: u64,
    /// What the allocator held.
    pub reserved_bytes: u64,
    /// Free on the device and reserved without use together would have been enough.
    pub enough_in_total: bool,
    /// The device had room for it: a limit on reserved bytes stood in the way.
    pub at_limit: bool,
    /// The line that asked.
    pub line: Option<String>,
    /// What the report says of it, in a sentence.
    pub verdict: String,
    /// What to change, in sentences.
    pub remedy: Option<String>,
}

/// Groups of what was allocated, most bytes first; all of them together are exactly the bytes that were.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holders {
    /// The groups with the most bytes.
    pub top: Vec<Held>,
    /// All others together.
    pub rest_bytes: u64,
    /// How many these are.
    pub rest_groups: usize,
}

impl Holders {
    /// What a group that is not among the first holds at most.
    pub fn most_of_rest(&self) -> u64 {
        let last = self.top.last().map_or(u64::MAX, |held| held.bytes);
        self.rest_bytes.min(last)
    }
}

/// A group of allocations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// As the report names it.
    pub name: String,
    /// What tells it from others in recordings of other hosts: of a line the whole path of its file, the line and the function.
    /// `None` where the name does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// It was live before recording began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preexisting: bool,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// How many blocks there are.
    pub count: u64,
}

/// A line that is suspected of a leak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// As the report names it.
    pub name: String,
    /// As of [`Held::place`].
    pub place: Option<String>,
    /// How many of its allocations were never freed.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// Bytes of these that a step adds, on average; `None` where no steps are known.
    pub bytes_a_step: Option<u64>,
}

/// What is reserved and not in use at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unused {
    /// The last event before that moment.
    pub event: Option<usize>,
    /// What the allocator held.
    pub reserved_bytes: u64,
    /// Lost inside of blocks to rounding.
    pub internal_bytes: u64,
    /// Between blocks: reserved and free.
    pub external_bytes: u64,
    /// Part of it in whole segments, which go back to the device when needed.
    pub whole_segments_bytes: u64,
    /// Part of it that one more of the run's largest requests cannot use.
    pub unusable_bytes: u64,
}

/// The steps of a program that repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepsTold {
    /// How many there are.
    pub count: usize,
    /// How long the typical one took, in microseconds, where times are recorded.
    pub typical_us: Option<i64>,
    /// The highest allocated bytes in the typical one.
    pub typical_peak_bytes: u64,
}

/// The highest values over equal parts of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// What is cut into equal parts.
    pub over: Over,
    /// The highest allocated bytes in each; [`CELLS`] of them.
    pub allocated_bytes: Vec<u64>,
    /// The highest reserved bytes in each.
    pub reserved_bytes: Vec<u64>,
}

/// How many parts a [`Course`] has.
pub const CELLS: usize = 128;

/// Which part `at` lies in, of those from 0 to `all`.
pub(crate) fn cell(at: u64, all: u64) -> usize {
    (u128::from(at) * CELLS as u128 / (u128::from(all) + 1)) as usize
}

impl RankSummary {
    /// The part of its [`Course`] in which it first ran out of memory; `None` where it did not, or where nobody knows when.
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

/// What a [`Course`] is cut along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The time from the first event to the last.
    Time,
    /// The events, where no times were recorded.
    Events,
}

/// Which program a recording is of, as its own lines tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// How many lines of the user's code are in its stacks.
    pub lines: usize,
    /// The smallest hashes of these lines, rising: where two programs share a good part of their lines, they share some of these.
    pub sketch: Vec<u64>,
    /// The same of its functions, which stay where an edit moves lines.
    pub functions: Vec<u64>,
    /// The names of some files of it, those with most lines first.
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
