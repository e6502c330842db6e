//! What the page asks of a recording, and what it is told, as plain data.
//!
//! The types by which the page reads all of this are written from these structs, comments included
//! (`viewer/src/source/generated/view.ts`): a field is added here, and nowhere else.
//!
//! Events are numbered from 0. A moment is a position between events: moment 0 lies before the first event, moment n after
//! event n - 1, so there is one moment more than there are events. Times of a device are microseconds after its first
//! event. Columns of numbers say [`NONE`] where there is no such thing.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U8s, U16s, U32s};

/// Stands for "no such thing" in columns of numbers.
pub(crate) const NONE: u32 = u32::MAX;

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
    pub(crate) format: &'static str,
    /// `PYTORCH_CUDA_ALLOC_CONF` as it was recorded.
    pub(crate) conf: Option<&'r str>,
    /// Facts about the file, in the order in which they are shown: their names and values.
    pub(crate) facts: Vec<(&'static str, String)>,
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
    pub(crate) trust: Trust,
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

/// What is recorded with an allocation or event besides numbers and a stack. Texts are positions in the device's `tag_texts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Tags {
    pub(crate) stream: u64,
    /// Null where the recording has no ids of pools; 0, 0 is the default pool.
    pub(crate) pool: Option<[u64; 2]>,
    pub(crate) category: Option<u32>,
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
}

/// A picture of a window: each pixel column shows the moment in it at which the stacked bytes were highest, so that no
/// peak is lost at any zoom; each row shows what covers its middle.
///
/// Pixel columns that show the same moment share a column here. Column `c` has the runs `start[c]` up to `start[c + 1]`,
/// from the bottom: run `r` shows item `item[r]` below row `end[r]`, and above the end of the run before it. Row 0 is
/// the bottom. Above the last run nothing is live, and where the item is `NONE` nothing lies.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Picture {
    /// Bytes at the bottom and at the top.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The column of each pixel column; `NONE` where the window reaches beyond the recording.
    pub(crate) column: U32s,
    /// The moment that a column shows.
    pub(crate) moment: U32s,
    pub(crate) start: U32s,
    pub(crate) item: U32s,
    pub(crate) end: U16s,
    pub(crate) items: Items,
    /// The exact highest bytes within each pixel column.
    pub(crate) highest: ByKind<F64s>,
}

/// The items of a picture: allocations, or ranges of reserved memory.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Items {
    /// The number of the allocation or range.
    pub(crate) id: U32s,
    pub(crate) address: F64s,
    /// Bytes as they are stacked.
    pub(crate) bytes: F64s,
    /// Bytes of the block or range, whatever is stacked.
    pub(crate) size: F64s,
    /// The first moment at which it is there.
    pub(crate) from: U32s,
    /// The first moment at which it is there no more; `NONE` where it stays to the end.
    pub(crate) to: U32s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
}

/// What is allocated at a moment, added up by stack, tags and origin.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Live {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// How the allocations are known: a position in `ORIGINS`.
    pub(crate) origin: U8s,
    pub(crate) bytes: F64s,
    pub(crate) requested: F64s,
    /// The number of blocks.
    pub(crate) count: U32s,
}

/// Segments and blocks at a moment, both by address. What no block covers is free.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Layout {
    pub(crate) moment: usize,
    pub(crate) counters: ByKind<u64>,
    pub(crate) segments: LayoutSegments,
    pub(crate) blocks: LayoutBlocks,
}

/// An expandable segment comes in the pieces in which it was mapped; blocks reach across pieces that touch.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LayoutSegments {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 where the segment is expandable.
    pub(crate) expandable: U8s,
    pub(crate) stack: U32s,
    pub(crate) from: U32s,
}

/// The active blocks of a layout.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LayoutBlocks {
    pub(crate) allocation: U32s,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) requested: F64s,
    /// 1 where the block was freed and waits for another stream.
    pub(crate) pending: U8s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    pub(crate) from: U32s,
}

/// Some events, in order.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Events {
    /// The number of the first of them.
    pub(crate) first: usize,
    /// A position in `ACTIONS`.
    pub(crate) action: U8s,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    /// NaN where it was not recorded.
    pub(crate) time_us: F64s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// The allocation that it makes or frees.
    pub(crate) allocation: U32s,
}

/// Everything about one allocation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Allocation {
    pub(crate) id: usize,
    pub(crate) address: u64,
    /// Which of the allocations at this address it is, from 0.
    pub(crate) version: u32,
    pub(crate) requested: u64,
    /// The bytes of its block.
    pub(crate) bytes: u64,
    /// The moment after it was made; 0 of what was live before recording began.
    pub(crate) from: usize,
    /// The moment after it was freed.
    pub(crate) freed: Option<usize>,
    /// The moment after its memory was available again, which may be later than `freed`: other streams may use it on.
    pub(crate) to: Option<usize>,
    pub(crate) from_us: Option<i64>,
    pub(crate) freed_us: Option<i64>,
    pub(crate) to_us: Option<i64>,
    pub(crate) stack: Option<usize>,
    pub(crate) free_stack: Option<usize>,
    pub(crate) tags: u32,
    /// A position in `ORIGINS`.
    pub(crate) origin: u8,
    pub(crate) size_inferred: bool,
    /// Allocated bytes right after it was made.
    pub(crate) total: u64,
}

/// Allocations that a search finds: how many, and the largest of them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Found {
    pub(crate) count: usize,
    /// The bytes of all that were found, added up over the recording.
    pub(crate) bytes: u64,
    pub(crate) id: U32s,
    pub(crate) address: F64s,
    pub(crate) size: F64s,
    pub(crate) from: U32s,
    pub(crate) to: U32s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
}

/// Annotated regions: one entry a run, outermost first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Regions<'r> {
    pub(crate) names: Vec<&'r str>,
    /// A position in `names`.
    pub(crate) name: U32s,
    pub(crate) depth: U8s,
    /// The moments at which the run begins and ends.
    pub(crate) from: U32s,
    pub(crate) to: U32s,
    pub(crate) from_us: F64s,
    pub(crate) to_us: F64s,
}

/// Every range of memory that was reserved, by its first moment, and the highest bytes of each pool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Segments<'r> {
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    pub(crate) from: U32s,
    /// `NONE` where it is still there at the end.
    pub(crate) to: U32s,
    pub(crate) tags: U32s,
    /// A position in `SEGMENT_KINDS`.
    pub(crate) kind: U8s,
    /// 1 where the segment is expandable.
    pub(crate) expandable: U8s,
    pub(crate) stack: U32s,
    pub(crate) pools: &'r [PoolPeaks],
}

/// The highest reserved and active bytes of a pool on a stream.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PoolPeaks {
    pub(crate) pool: Option<[u64; 2]>,
    pub(crate) stream: u64,
    pub(crate) peak_reserved: u64,
    pub(crate) peak_active: u64,
}

/// What the report finds on a device, as data and in sentences.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Report {
    /// The device's part of `vramscope report --json`.
    #[cfg_attr(test, ts(type = "ReportDevice"))]
    pub(crate) device: serde_json::Value,
    /// What is said of each of `ooms`, in their order.
    pub(crate) ooms: Vec<OomFinding>,
    /// Which setting would have served best after an out of memory.
    pub(crate) best_setting: Option<String>,
}

/// What is said of a request that failed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OomFinding {
    /// Which free blocks were of no use to the request and why, a clause each.
    pub(crate) unusable: Vec<String>,
    /// Why it failed.
    pub(crate) cause: String,
}

/// The recording replayed under its own settings and under others.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Replay {
    /// The device's part of `vramscope replay --json`.
    #[cfg_attr(test, ts(type = "ReplayDevice"))]
    pub(crate) device: serde_json::Value,
    /// Reserved bytes under each of the settings tried: moment and bytes, at each change.
    pub(crate) lines: Vec<Vec<(usize, u64)>>,
    /// How large the device is, and from where that is known, in a sentence.
    pub(crate) device_size: String,
    /// How little any allocator could do with, and how sure that is: two sentences.
    pub(crate) floors: [String; 2],
    pub(crate) trust: ReplayTrust,
}

/// How far the numbers of a replay can be trusted, in the words of the report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ReplayTrust {
    /// The verdict in a few words.
    pub(crate) title: &'static str,
    /// What the replay reproduced; null where it did not reproduce the recording.
    pub(crate) reproduced: Option<&'static str>,
    /// Why the replay is approximate, a sentence each; empty where it is exact.
    pub(crate) doubts: Vec<String>,
    /// Further reasons, which hold only for settings other than the recorded ones.
    pub(crate) what_if_doubts: Vec<String>,
}

/// What part of the timeline is drawn, and how large.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Window"))]
pub(crate) struct WindowQuery {
    pub(crate) stacked: ByteKind,
    pub(crate) axis: Axis,
    /// The left and the right end on the axis.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// The size of the picture in pixels.
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Bytes at the bottom and at the top; where the top is null, the picture is fitted to what is there.
    pub(crate) low: f64,
    pub(crate) high: Option<f64>,
    /// Where `high` is null: whether room is left for reserved bytes, too. 1 is yes in the question.
    #[cfg_attr(test, ts(type = "boolean"))]
    pub(crate) fit_reserved: u8,
}

/// A kind of bytes. The timeline stacks live allocations by one of them, or reserved ranges.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ByteKind {
    Requested,
    Allocated,
    Active,
    Reserved,
}

/// What the timeline lies along: moments, or microseconds after the first event.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Axis {
    Events,
    Time,
}

/// A search: it finds the allocations that match every member that is not null.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Query"))]
pub(crate) struct SearchQuery {
    pub(crate) stacks: Option<Vec<u32>>,
    pub(crate) tags: Option<Vec<u32>>,
    /// An address inside of the block.
    pub(crate) address: Option<f64>,
    /// Which of the allocations that begin at `address`, from 0.
    pub(crate) version: Option<u32>,
    /// Bounds of the block's bytes, both included.
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}
