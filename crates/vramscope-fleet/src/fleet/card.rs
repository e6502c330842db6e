//! What the largest rank needs against the card.

use serde::Serialize;

use super::ReadRank;

/// The rank that reserved most, and the memory of the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Card {
    /// What the allocator can have of the card.
    pub capacity_bytes: u64,
    /// The rank whose recording shows it, where it ran out of memory; `None` where it was given.
    pub shown_by_rank: Option<u64>,
    /// The rank that reserved most.
    pub rank: u64,
    /// The highest bytes that it reserved.
    pub peak_reserved_bytes: u64,
    /// What was left of the card then; negative where it has less.
    pub headroom_bytes: i64,
}

impl Card {
    /// Against a card of `given` bytes, or else against the smallest that a recording shows.
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
