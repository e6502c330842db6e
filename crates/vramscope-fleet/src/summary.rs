//! The summary of one recording: a few kilobytes of plain data. A fleet is computed from summaries alone.
//!
//! A summary contains numbers, names and enums, and no sentences. Methods make the sentences when the output is rendered, so a cached
//! summary cannot insert a sentence.
//!
//! Field names are the JSON keys. Sizes are in bytes, times in microseconds since the Unix epoch; events are numbered from 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vramscope_analysis::{BestSetting, Quality, Recorder, Remedy};
use vramscope_report::out_of_memory::{MainCause, changes_after_oom};
use vramscope_report::{Advice, Confidence};
use vramscope_trace::Notices;

/// The version of [`RankSummary`]: cached summaries of other versions are recomputed.
pub const VERSION: u32 = 7;

/// The summary of one recording, for the device with the highest peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSummary {
    /// The format of the file, such as `pickle`.
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
    /// The driver's highest count of the device's memory; `None` if the recording has none.
    pub device_use: Option<DeviceUsed>,
    /// Holders at the peak of allocated bytes, by line.
    pub lines: Holders,
    /// Holders at that peak, by category.
    pub categories: Holders,
    /// Holders at that peak, by allocating module without inner modules; empty if no modules are recorded.
    pub layers: Holders,
    /// Leaking lines, most bytes first.
    pub leaks: Vec<Leak>,
    /// The number of leaking lines that `leaks` does not list.
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
    /// The accuracy of the numbers.
    pub quality: Quality,
    /// The peak of allocated bytes is at least this, although parts of the recording may be missing.
    pub peak_at_least: u64,
    /// The peak of allocated bytes is at most this; `None` if the missing parts may have any number of bytes.
    pub peak_at_most: Option<u64>,
    /// Whether the recording states that its ring buffer dropped the oldest events.
    pub overflowed: bool,
    /// The program that made the recording.
    pub recorder: Recorder,
    /// Contents of the file that were not used.
    pub notices: Notices,
}

/// A count of the driver of the memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceUsed {
    /// Time of the count.
    pub time_us: i64,
    /// Bytes in use, by all processes.
    pub used_bytes: u64,
    /// Bytes that the device has.
    pub total_bytes: u64,
    /// The part that neither PyTorch's allocator nor another recorded library had: contexts, kernels and other processes. Negative if
    /// managed memory is not on the device.
    pub rest_bytes: i64,
}

/// The peak of a counter, and its first occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Why it failed.
    pub main_cause: MainCause,
    /// A change, other than a setting, that makes the run fit.
    pub remedy: Option<Remedy>,
    /// The best of the tried settings.
    pub best_setting: Option<BestSetting>,
    /// Bytes that the program gains per step.
    pub growth_per_step: Option<u64>,
}

impl Oom {
    /// Returns the verdict of the report, in a sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        self.main_cause.verdict(self.requested_bytes)
    }

    /// What to change, in sentences.
    #[must_use]
    pub fn changes(&self, advice: &Advice) -> Option<String> {
        let (main, remedy) = (self.main_cause.cause.as_ref(), self.remedy.as_ref());
        let changes =
            changes_after_oom(main, remedy, self.best_setting.as_ref(), self.growth_per_step, advice);
        (!changes.is_empty()).then(|| changes.join(" "))
    }
}

/// Groups of allocations, most bytes first; their sum is exactly the allocated bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Holders {
    /// The groups with the most bytes.
    pub top: Vec<Held>,
    /// Bytes of all other groups together.
    pub rest_bytes: u64,
    /// The number of these groups.
    pub rest_groups: usize,
}

impl Holders {
    /// Upper bound on the bytes of any single group in the rest.
    pub fn most_of_rest(&self) -> u64 {
        let last = self.top.last().map_or(u64::MAX, |held| held.bytes);
        self.rest_bytes.min(last)
    }
}

/// A group of allocations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Held {
    /// The name in reports.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LeakOfRank"))]
pub struct Leak {
    /// The name in reports.
    pub name: String,
    /// An identifier, as `place` of a holder.
    pub place: Option<String>,
    /// The number of its allocations that were never freed.
    pub kept: u64,
    /// Bytes of these allocations.
    pub kept_bytes: u64,
    /// Average bytes of these allocations per step; `None` if no steps are known.
    pub bytes_a_step: Option<u64>,
}

/// Reserved memory that is not in use at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "StepsOfRank"))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Course {
    /// The axis that is divided into equal parts.
    pub over: Over,
    /// The peak of allocated bytes in each part.
    pub allocated_bytes: Vec<u64>,
    /// The peak of reserved bytes in each part.
    pub reserved_bytes: Vec<u64>,
}

/// The number of parts of a [`Course`].
pub const CELLS: usize = 128;

/// Returns the part that contains `at`, for positions from 0 to `all`.
pub(crate) fn cell(at: u64, all: u64) -> usize {
    (u128::from(at) * CELLS as u128 / (u128::from(all) + 1)) as usize
}

impl RankSummary {
    /// Whether allocated bytes are exact, and not partly inferred.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.quality.sizes_exact()
    }

    /// Whether the oldest events were probably dropped, so that the peak may have been higher.
    #[must_use]
    pub fn events_dropped(&self) -> bool {
        self.quality.inferred.probably_overflowed
    }

    /// Returns the limitations of the numbers, one sentence each.
    #[must_use]
    pub fn limitations(&self, advice: &Advice) -> Vec<String> {
        let confidence = Confidence::of(&self.quality, self.overflowed, self.recorder, advice);
        confidence.dropped.into_iter().chain(confidence.limitations).collect()
    }

    /// Returns the part of its [`Course`] with the first out-of-memory failure; `None` without a failure, or if its time is unknown.
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

/// The axis that is divided into equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The time from the first event to the last.
    Time,
    /// The events, where no times were recorded.
    Events,
}

/// The program of a recording, identified by its user lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
mod tests;
