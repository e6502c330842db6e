//! A recording, as the page first receives it: its facts, devices, tags and names.

use std::borrow::Cow;

use serde::Serialize;

use crate::columns::{U8s, U32s};

/// Bytes by kind. Requested bytes are PyTorch's sum over active blocks, so they can exceed the allocated bytes while blocks
/// wait for other streams.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ByKind<T> {
    pub(crate) requested: T,
    pub(crate) allocated: T,
    pub(crate) active: T,
    pub(crate) reserved: T,
}

/// One open file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Recording<'r> {
    pub(crate) name: &'r str,
    /// `pickle`, `json` or `log`.
    pub(crate) format: &'r str,
    /// `PYTORCH_CUDA_ALLOC_CONF` as it was recorded.
    pub(crate) conf: Option<&'r str>,
    /// Names and values of facts about the file, in display order.
    pub(crate) facts: &'r [(String, String)],
    /// Names and values of the recorded allocator settings.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) devices: Vec<Device<'r>>,
}

/// One device of a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Device<'r> {
    /// Its number in the recording; -1 for the host.
    pub(crate) device: i64,
    pub(crate) events: usize,
    pub(crate) allocations: usize,
    /// The time of the first event, in microseconds since the Unix epoch; null if events have no times.
    pub(crate) origin_us: Option<i64>,
    /// Microseconds from the first event to the last.
    pub(crate) duration_us: Option<i64>,
    pub(crate) peaks: ByKind<Peak>,
    /// Bytes before the first event.
    pub(crate) start: ByKind<u64>,
    /// Bytes after the last event.
    pub(crate) end: ByKind<u64>,
    /// The number of allocations that were live before recording.
    pub(crate) preexisting: usize,
    pub(crate) marks: Vec<Mark>,
    /// The distinct combinations of tags; allocations and events refer to them by position.
    pub(crate) tags: &'r [Tags],
    /// The distinct texts of `tags`.
    pub(crate) tag_texts: Vec<&'r str>,
    /// The categories of allocations, which refer to them by position. Null for a long recording before they are computed.
    pub(crate) purposes: Option<&'r [Purpose]>,
    /// The steps of the program. Null if it does not repeat itself, and while `purposes` is null.
    pub(crate) steps: Option<Steps>,
    /// The phases of steps. Null if none are known, and while `purposes` is null.
    pub(crate) phases: Option<Phases>,
    pub(crate) trust: Trust,
}

/// The categories of a device's memory, and the steps and phases that follow from them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Meaning<'r> {
    pub(crate) purposes: &'r [Purpose],
    pub(crate) steps: Option<Steps>,
    pub(crate) phases: Option<Phases>,
}

/// The phases of steps, in order and without overlaps. Lists have one entry per phase.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Phases {
    /// The sources of the phases, in sentences.
    pub(crate) told: String,
    /// A position in `PHASES`.
    pub(crate) phase: Vec<u8>,
    /// Whether the phase is inferred, not recorded.
    pub(crate) is_inferred: Vec<bool>,
    /// The step, numbered from 0; null outside of all steps.
    pub(crate) step: Vec<Option<usize>>,
    /// The moment right before the first event, and the last moment.
    pub(crate) from: Vec<usize>,
    pub(crate) to: Vec<usize>,
    /// The time of the first event, and of the first event after the phase; empty if the recording has no times.
    pub(crate) from_us: Vec<i64>,
    pub(crate) to_us: Vec<i64>,
    /// The peak of allocated bytes, including the moment right before the first event, and the first moment of the peak.
    pub(crate) peak: Vec<u64>,
    pub(crate) peak_moment: Vec<usize>,
    /// The bytes of all blocks allocated in the phase, and their number.
    pub(crate) allocated: Vec<u64>,
    pub(crate) allocations: Vec<u64>,
    /// Allocated bytes after the phase minus those before it.
    pub(crate) kept: Vec<i64>,
}

/// The steps of a program that repeats itself, numbered from 0. Lists have one entry per step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Steps {
    /// How the step boundaries were found, and how many steps are alike, in sentences.
    pub(crate) told: String,
    /// The step with the largest peak; and, among the steps after the first, the one with the median peak (null for fewer than
    /// three of them).
    pub(crate) highest: usize,
    pub(crate) median: Option<usize>,
    /// Steps whose allocations differ from most steps, in order; empty if fewer than half are alike.
    pub(crate) unusual: Vec<usize>,
    /// The first of `unusual` that is neither the first nor the last step. The recording may end within the last.
    pub(crate) first_unusual: Option<usize>,
    /// Boundaries on the moment axis: a step has the moments from its entry up to the next entry. One more entry than there are
    /// steps.
    pub(crate) bounds: Vec<usize>,
    /// The same in microseconds; empty if the recording has no times.
    pub(crate) bounds_us: Vec<i64>,
    /// The peak of allocated bytes, including the moment right before the step's first event, and the first moment of the peak.
    pub(crate) peak: Vec<u64>,
    pub(crate) peak_moment: Vec<usize>,
    /// The bytes of all blocks allocated in the step, and their number.
    pub(crate) allocated: Vec<u64>,
    pub(crate) allocations: Vec<u64>,
    /// Allocated bytes after the step minus those before it.
    pub(crate) kept: Vec<i64>,
}

/// The confidence in a device's numbers, in the wording of the report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Trust {
    pub(crate) is_exact: bool,
    /// The verdict in a few words.
    pub(crate) title: &'static str,
    /// Why numbers may be inexact, one sentence each; empty if they are exact.
    pub(crate) doubts: Vec<String>,
    /// Whether a replay under the recorded settings reproduced the recording, in a sentence.
    pub(crate) replay: &'static str,
    /// A sentence if the oldest events were dropped, with advice on how to record them.
    pub(crate) dropped: Option<String>,
}

/// The peak of one kind of bytes, and its first moment.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Peak {
    pub(crate) bytes: u64,
    pub(crate) moment: usize,
}

/// An event with a mark on the axis.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Mark {
    pub(crate) event: usize,
    pub(crate) time_us: Option<i64>,
    pub(crate) kind: MarkKind,
    /// The requested bytes, for an out-of-memory event.
    pub(crate) bytes: u64,
}

/// The reason for a mark.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkKind {
    Oom,
    Snapshot,
}

/// The category of an allocation, and the evidence for it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Purpose {
    /// A position in `CATEGORIES`.
    pub(crate) category: u8,
    /// A clause about "it".
    pub(crate) because: String,
}

/// Recorded properties of an allocation or event, besides numbers and the stack. Texts are positions in the device's
/// `tag_texts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Tags {
    pub(crate) stream: u64,
    /// Null if the recording has no pool ids; (0, 0) is the default pool.
    pub(crate) pool: Option<[u64; 2]>,
    /// The path of the module that made the allocation; empty for the outermost module.
    pub(crate) layer: Option<u32>,
    /// The category from PyTorch's profiler, in its own words.
    pub(crate) recorded_category: Option<u32>,
    pub(crate) compile_context: Option<u32>,
    pub(crate) user_metadata: Option<u32>,
}

/// Frames and stacks of a file. Frames refer to the distinct `texts` by position.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Names<'r> {
    pub(crate) texts: Vec<Cow<'r, str>>,
    /// For each frame, its file as recorded.
    pub(crate) file: U32s,
    /// The file as shortened in reports.
    pub(crate) short_file: U32s,
    pub(crate) function: U32s,
    pub(crate) short_function: U32s,
    /// The library, by which transforms of the call tree know the frame; `NONE` for the user's code.
    pub(crate) library: U32s,
    pub(crate) line: U32s,
    /// The code classification: a position in `CODES`.
    pub(crate) code: U8s,
    /// Stack `i` has the frames from `ends[i - 1]` (0 for the first) up to `ends[i]`, innermost first.
    pub(crate) ends: U32s,
    pub(crate) frames: U32s,
    /// For each stack, the frame that names it: usually the innermost user frame.
    pub(crate) own: U32s,
    /// The frames of generated code whose origin is recorded, in order.
    pub(crate) generated: U32s,
    /// For each of them, the graph node, as a position in `texts`; `NONE` without a name.
    pub(crate) node: U32s,
    /// For each of them, the original lines of the program, as a position in `texts`.
    pub(crate) original: U32s,
}
