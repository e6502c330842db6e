//! The need of the largest rank compared with the GPU's memory.

use serde::Serialize;

use super::ReadRank;

/// The rank with the highest peak of reserved bytes, and the memory of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Card {
    /// GPU memory that is available to the allocator.
    pub capacity_bytes: u64,
    /// The rank whose out-of-memory failure shows the capacity; `None` if the capacity was given.
    pub shown_by_rank: Option<u64>,
    /// The rank with the highest peak of reserved bytes.
    pub rank: u64,
    /// That peak.
    pub peak_reserved_bytes: u64,
    /// The capacity minus that peak; negative if the GPU is too small.
    pub headroom_bytes: i64,
}

impl Card {
    /// Compares with a GPU of `given` bytes, or else with the smallest capacity in the recordings.
    pub(super) fn of(ranks: &[ReadRank<'_>], given: Option<u64>) -> Option<Self> {
        let shown = ranks.iter().filter_map(|rank| Some((rank.summary.capacity_bytes?, rank.number))).min();
        let (capacity, shown_by_rank) = match (given, shown) {
            (Some(given), _) => (given, None),
            (None, Some((shown, rank))) => (shown, Some(rank)),
            (None, None) => return None,
        };
        let most = ranks.iter().map(|rank| rank.summary.peak_reserved.bytes).max()?;
        let rank = ranks.iter().find(|rank| rank.summary.peak_reserved.bytes == most)?;
        let headroom = i128::from(capacity) - i128::from(most);
        Some(Self {
            capacity_bytes: capacity,
            shown_by_rank,
            rank: rank.number,
            peak_reserved_bytes: most,
            headroom_bytes: i64::try_from(headroom).unwrap_or(if headroom < 0 { i64::MIN } else { i64::MAX }),
        })
    }
}
