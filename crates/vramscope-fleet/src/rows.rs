//! One row per rank, even if its recording could not be read.

use crate::naming::Rank;
use crate::summary::RankSummary;

/// A rank and its recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankRow {
    /// The rank.
    pub rank: Rank,
    /// The file, as it was given.
    pub file: String,
    /// The summary, or the reason why the file could not be read.
    pub summary: Result<Box<RankSummary>, String>,
}
