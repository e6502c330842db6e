//! The ranks of a job.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::columns::F64s;

/// All ranks of a job, with the results of `vramscope fleet`. Ranks are identified by their positions in `ranks`, which are
/// also the positions of their files.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Ranks<'f> {
    /// The paths as given on the command line.
    pub(crate) paths: &'f [String],
    /// The source of the rank numbers, as a phrase after "ranks by".
    pub(crate) ranks_by: &'f str,
    /// Skipped files and cache problems, one line each.
    pub(crate) notes: &'f [String],
    /// The number of ranks that could be read.
    pub(crate) read: usize,
    /// The summary, in sentences.
    pub(crate) told: Vec<String>,
    /// Whether the summary reports no problem.
    pub(crate) is_well: bool,
    /// The upper ends of the scales of bytes.
    pub(crate) scales: Scales,
    /// Kinds of similar ranks, largest kind first.
    pub(crate) kinds: Vec<KindOfRanks>,
    /// The names of the parallel groups of the ranks.
    pub(crate) groups: Vec<&'f str>,
    /// Every rank, in order.
    pub(crate) ranks: Vec<RankTold<'f>>,
    /// Ranks that deserve a closer look.
    pub(crate) different: Vec<DifferentRank>,
    /// The maximum of allocated bytes in equal parts of each recording, from its first event to its last: for the first rank,
    /// then for the next. Zeros for ranks that could not be read.
    pub(crate) allocated: F64s,
    /// The same for reserved bytes.
    pub(crate) reserved: F64s,
    /// The number of parts per recording.
    pub(crate) cells: usize,
}

/// The upper end of the scale of each kind of bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Scales {
    pub(crate) allocated: Scale,
    pub(crate) reserved: Scale,
}

/// The upper end of a scale of bytes: the GPU's memory if known and of use, otherwise the largest peak.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Scale {
    pub(crate) bytes: u64,
    /// The description of that value.
    pub(crate) told: &'static str,
}

/// A kind of similar ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct KindOfRanks {
    /// The number of ranks.
    pub(crate) ranks: usize,
    /// Whether the kind has many ranks. Other kinds deserve a closer look.
    pub(crate) is_usual: bool,
    /// The median of the ranks' peaks of allocated bytes.
    pub(crate) peak_bytes: u64,
}

/// A rank.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct RankTold<'f> {
    /// The rank number in the job.
    pub(crate) rank: u64,
    /// The host of the rank.
    pub(crate) host: Option<&'f str>,
    /// Its number in each parallel group.
    pub(crate) groups: &'f BTreeMap<String, u64>,
    /// The file.
    pub(crate) file: &'f str,
    /// Why the file could not be read.
    pub(crate) unread_because: Option<&'f str>,
    /// Its position in `kinds`.
    pub(crate) kind: Option<usize>,
    /// The peak of allocated bytes.
    pub(crate) allocated_bytes: Option<u64>,
    /// The difference to the most similar usual kind's peak, in bytes; negative if below it.
    pub(crate) against_usual_bytes: Option<i64>,
    /// The peak of reserved bytes.
    pub(crate) reserved_bytes: Option<u64>,
    /// The requested bytes, if the rank ran out of memory.
    pub(crate) failed_bytes: Option<u64>,
    /// The part of the recording in which it ran out of memory, if known.
    pub(crate) failed_cell: Option<usize>,
    /// The line that leaks most.
    pub(crate) leak: Option<&'f str>,
}

/// A rank that deserves a closer look.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct DifferentRank {
    /// Its position in `ranks`.
    pub(crate) at: usize,
    /// The position of a usual rank for comparison.
    pub(crate) beside: Option<usize>,
    /// The reasons, one sentence each.
    pub(crate) reasons: Vec<String>,
}
