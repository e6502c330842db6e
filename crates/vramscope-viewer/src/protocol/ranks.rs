use std::collections::BTreeMap;

use serde::Serialize;

use crate::columns::F64s;

/// All ranks of a job, as `vramscope fleet` tells of them. Ranks are named by their positions among `ranks`, which are also those of
/// their files.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Ranks<'f> {
    /// What was looked at, as it was given.
    pub(crate) paths: &'f [String],
    /// Where the ranks were found, as what follows "ranks by".
    pub(crate) ranks_by: &'f str,
    /// What was left out or could not be kept, a line each.
    pub(crate) notes: &'f [String],
    /// How many of the ranks could be read.
    pub(crate) read: usize,
    /// What is told first, in sentences.
    pub(crate) told: Vec<String>,
    /// They say that all is well.
    pub(crate) is_well: bool,
    /// The upper end of the scale of bytes: the memory of the card where it is known, else the highest peak.
    pub(crate) scale_bytes: u64,
    /// What that is, in words.
    pub(crate) scale: &'static str,
    /// Ranks that behave alike, the largest kind first.
    pub(crate) kinds: Vec<KindOfRanks>,
    /// The names of the parallel groups that ranks are in.
    pub(crate) groups: Vec<&'f str>,
    /// Every rank, in order.
    pub(crate) ranks: Vec<RankTold<'f>>,
    /// The ranks that are worth a look.
    pub(crate) different: Vec<DifferentRank>,
    /// The highest allocated bytes in equal parts of each recording, from its first event to its last: those of the first rank,
    /// then of the next. Ranks that could not be read have zeros.
    pub(crate) allocated: F64s,
    /// The same of reserved bytes.
    pub(crate) reserved: F64s,
    /// How many parts there are of each recording.
    pub(crate) cells: usize,
}

/// Ranks that behave alike.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct KindOfRanks {
    /// How many ranks there are.
    pub(crate) ranks: usize,
    /// Many ranks are of it; what is not usual is worth a look.
    pub(crate) is_usual: bool,
    /// The allocated bytes at the peak of the rank in its middle.
    pub(crate) peak_bytes: u64,
}

/// A rank.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct RankTold<'f> {
    /// Its number in the job.
    pub(crate) rank: u64,
    /// The machine that it ran on.
    pub(crate) host: Option<&'f str>,
    /// Its number in each parallel group.
    pub(crate) groups: &'f BTreeMap<String, u64>,
    /// The file.
    pub(crate) file: &'f str,
    /// Why the file could not be read, in words.
    pub(crate) unread_because: Option<&'f str>,
    /// Its position among `kinds`.
    pub(crate) kind: Option<usize>,
    /// The highest allocated bytes.
    pub(crate) allocated_bytes: Option<u64>,
    /// By how much that is above the usual kind that its own is least unlike, in bytes; negative below it.
    pub(crate) against_usual_bytes: Option<i64>,
    /// The highest reserved bytes.
    pub(crate) reserved_bytes: Option<u64>,
    /// It ran out of memory: what was asked for, in bytes.
    pub(crate) failed_bytes: Option<u64>,
    /// The part of the recording in which it did, where that is known.
    pub(crate) failed_cell: Option<usize>,
    /// The line that leaks most.
    pub(crate) leak: Option<&'f str>,
}

/// A rank that is worth a look.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct DifferentRank {
    /// Its position among the ranks.
    pub(crate) at: usize,
    /// The position of a usual rank to see it beside.
    pub(crate) beside: Option<usize>,
    /// Why, in a sentence each.
    pub(crate) reasons: Vec<String>,
}
