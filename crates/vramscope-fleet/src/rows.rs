//! One row per rank, even if its recording could not be read.

use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};

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

impl Serialize for RankRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("RankRow", 6)?;
        row.serialize_field("rank", &self.rank.number)?;
        row.serialize_field("host", &self.rank.host)?;
        row.serialize_field("groups", &self.rank.groups)?;
        row.serialize_field("file", &self.file)?;
        row.serialize_field("unread_because", &self.summary.as_ref().err())?;
        row.serialize_field("summary", &self.summary.as_ref().ok())?;
        row.end()
    }
}
