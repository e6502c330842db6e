//! A recording, as the page first gets it: its files, devices, tags and names.

use std::borrow::Cow;

use serde::Serialize;

use crate::columns::{U8s, U32s};

/// Bytes by kind. Those requested are PyTorch's sum over active blocks: where blocks wait for other streams, it can exceed
/// what is allocated.
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
    /// Facts about the file, in the order in which they are shown: their names and values.
    pub(crate) facts: &'r [(String, String)],
    /// The recorded settings of the allocator: their names and values.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) devices: Vec<Device<'r>>,
}

/// One device of a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Device<'r> {
    /// Its number in the recording; -1 is the host.
    pub(crate) device: i64,
    pub(crate) events: usize,
    pub(crate) allocations: usize,
    /// When the first event happened, in microseconds since the Unix epoch; null where events have no times.
    pub(crate) origin_us: Option<i64>,
    /// From the first event to the last, in microseconds.
    pub(crate) duration_us: Option<i64>,
    pub(crate) peaks: ByKind<Peak>,
    /// Bytes before the first event.
    pub(crate) start: ByKind<u64>,
    /// Bytes after the last event.
    pub(crate) end: ByKind<u64>,
    /// Allocations that were live before recording began.
    pub(crate) preexisting: usize,
    pub(crate) marks: Vec<Mark>,
    /// Each combination of tags once; allocations and events name theirs by its position here.
    pub(crate) tags: &'r [Tags],
    /// The texts of `tags`, each once.
    pub(crate) tag_texts: Vec<&'r str>,
    /// What allocations are for; they name theirs by its position here. Null of a long recording of which nobody asked it yet.
    pub(crate) purposes: Option<&'r [Purpose]>,
    /// The steps of the program. Null where it does not repeat itself, and as long as `purposes` is null.
    pub(crate) steps: Option<Steps>,
    pub(crate) trust: Trust,
}

/// What a device's memory is for, and what follows from it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Meaning<'r> {
    pub(crate) purposes: &'r [Purpose],
    pub(crate) steps: Option<Steps>,
}

/// The steps of a program that repeats itself, by their numbers from 0. Lists have an entry for each.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Steps {
    /// What tells where they begin, and how many are alike, in sentences.
    pub(crate) told: String,
    /// The one with the highest peak, and of those after the first the one with the median peak; null of fewer than three of them.
    pub(crate) highest: usize,
    pub(crate) median: Option<usize>,
    /// Those that make other allocations than most, in order; empty where fewer than half are alike.
    pub(crate) unusual: Vec<usize>,
    /// The first of `unusual` that is neither the first step nor the last, within which the recording may end.
    pub(crate) first_unusual: Option<usize>,
    /// Where they lie on the axis: a step has the moments from its entry up to the next one's. One entry more than there are steps.
    pub(crate) bounds: Vec<usize>,
    /// The same in microseconds; empty where the recording has no times.
    pub(crate) bounds_us: Vec<i64>,
    /// The highest allocated bytes, those right before its first event included, and the first moment at which they were reached.
    pub(crate) peak: Vec<u64>,
    pub(crate) peak_moment: Vec<usize>,
    /// Bytes of all blocks that were handed out in it, and how many these are.
    pub(crate) allocated: Vec<u64>,
    pub(crate) allocations: Vec<u64>,
    /// Allocated bytes after it minus those before.
    pub(crate) kept: Vec<i64>,
}

/// How far the numbers of a device can be trusted, in the words of the report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Trust {
    pub(crate) is_exact: bool,
    /// The same in a few words.
    pub(crate) title: &'static str,
    /// Why numbers may not be exact, a sentence each; empty where they are.
    pub(crate) doubts: Vec<String>,
    /// Whether a replay under the recorded settings gave what was recorded, in a sentence.
    pub(crate) replay: &'static str,
    /// That the oldest events were dropped, and how to record them, in a sentence.
    pub(crate) dropped: Option<String>,
}

/// The highest bytes of one kind, and the first moment at which they were reached.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Peak {
    pub(crate) bytes: u64,
    pub(crate) moment: usize,
}

/// An event that deserves a mark on the axis.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Mark {
    pub(crate) event: usize,
    pub(crate) time_us: Option<i64>,
    pub(crate) kind: MarkKind,
    /// The bytes of the request that failed, where it is an out of memory.
    pub(crate) bytes: u64,
}

/// Why an event has a mark.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkKind {
    Oom,
    Snapshot,
}

/// What an allocation is for, and why that is said.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Purpose {
    /// A position in `CATEGORIES`.
    pub(crate) category: u8,
    /// Half a sentence about "it".
    pub(crate) because: String,
}

/// What is recorded with an allocation or event besides numbers and a stack. Texts are positions in the device's `tag_texts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Tags {
    pub(crate) stream: u64,
    /// Null where the recording has no ids of pools; 0, 0 is the default pool.
    pub(crate) pool: Option<[u64; 2]>,
    /// The path of the module that made it; that of the outermost is empty.
    pub(crate) layer: Option<u32>,
    /// What PyTorch's profiler said that it is for, in its words.
    pub(crate) recorded_category: Option<u32>,
    pub(crate) compile_context: Option<u32>,
    pub(crate) user_metadata: Option<u32>,
}

/// Frames and stacks of a file. Texts stand once in `texts`; frames name theirs by its position.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Names<'r> {
    pub(crate) texts: Vec<Cow<'r, str>>,
    /// For each frame its file as recorded.
    pub(crate) file: U32s,
    /// The file as reports shorten it.
    pub(crate) short_file: U32s,
    pub(crate) function: U32s,
    pub(crate) short_function: U32s,
    pub(crate) line: U32s,
    /// Whose code it is: a position in `CODES`.
    pub(crate) code: U8s,
    /// Stack `i` has the frames from `ends[i - 1]` (0 of the first) up to `ends[i]`, innermost first.
    pub(crate) ends: U32s,
    pub(crate) frames: U32s,
    /// For each stack the frame that names it: as a rule the user's innermost.
    pub(crate) own: U32s,
    /// The frames of generated code of which the recording says what they stand for, in order.
    pub(crate) generated: U32s,
    /// For each of them the node of the graph, in `texts`; `NONE` where it is not named.
    pub(crate) node: U32s,
    /// The lines of the program that it came from, likewise.
    pub(crate) original: U32s,
}
