//! The peak and the allocations of many intervals of a history, in one walk over its moments.

use std::hash::BuildHasher as _;

use hashbrown::DefaultHashBuilder;

use crate::history::{History, Moment};

/// The bytes of an interval of moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IntervalBytes {
    /// Peak of allocated bytes.
    pub peak: u64,
    /// The first moment of the peak.
    pub peak_moment: Moment,
    /// Bytes of all blocks allocated in the interval.
    pub allocated: u64,
    /// Number of these blocks.
    pub allocations: u64,
    /// Allocated bytes after the interval minus those before it.
    pub kept: i64,
}

/// A history, cut into pieces at given moments.
pub(super) struct Pieces {
    /// The last moment of each piece, ascending.
    ends: Vec<Moment>,
    pieces: Vec<Piece>,
}

/// The moments after the end of the previous piece, up to the end of this one.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    peak: u64,
    peak_moment: Moment,
    /// Allocated bytes at its end.
    after: u64,
    allocated: u64,
    allocations: u64,
    /// The sum of a hash of each allocation: it does not depend on their order.
    hash: u64,
}

impl Pieces {
    /// Cuts `history` at `ends`, in any order.
    pub(super) fn of(history: &History, mut ends: Vec<Moment>) -> Self {
        ends.sort_unstable();
        ends.dedup();
        let mut pieces = vec![Piece::default(); ends.len()];
        let mut walk = history.walk();
        let mut seen = 0;
        for (piece, end) in pieces.iter_mut().zip(&ends) {
            for (moment, counters) in walk.by_ref().take(end.index() + 1 - seen) {
                piece.after = counters.allocated;
                if piece.after > piece.peak {
                    (piece.peak, piece.peak_moment) = (piece.after, moment);
                }
            }
            seen = end.index() + 1;
        }
        let hasher = DefaultHashBuilder::default();
        let mut number = 0;
        for a in history.recorded() {
            while ends.get(number).is_some_and(|&end| end < a.from) {
                number += 1;
            }
            let Some(piece) = pieces.get_mut(number) else { break };
            piece.allocated += a.size;
            piece.allocations += 1;
            piece.hash = piece.hash.wrapping_add(hasher.hash_one((a.stack, a.requested)));
        }
        Self { ends, pieces }
    }

    /// Returns the bytes from `from` to `to`, which must be ends of pieces.
    pub(super) fn bytes(&self, from: Moment, to: Moment) -> IntervalBytes {
        let (before, pieces) = self.between(from, to);
        let mut bytes = IntervalBytes { peak: before, peak_moment: from, ..IntervalBytes::default() };
        for piece in pieces {
            if piece.peak > bytes.peak {
                (bytes.peak, bytes.peak_moment) = (piece.peak, piece.peak_moment);
            }
            bytes.allocated += piece.allocated;
            bytes.allocations += piece.allocations;
        }
        let after = pieces.last().map_or(before, |piece| piece.after);
        bytes.kept = after as i64 - before as i64;
        bytes
    }

    /// Returns a hash of the allocations after `from` up to `to`, which must be ends of pieces: of the number of each size at each
    /// stack. Only comparable with other results of these pieces.
    pub(super) fn allocations_hash(&self, from: Moment, to: Moment) -> u64 {
        self.between(from, to).1.iter().fold(0, |sum, piece| sum.wrapping_add(piece.hash))
    }

    /// Returns the allocated bytes at `from`, and the pieces up to `to`.
    fn between(&self, from: Moment, to: Moment) -> (u64, &[Piece]) {
        let [first, last] = [from, to].map(|end| self.ends.partition_point(|&other| other < end));
        let before = self.pieces.get(first).map_or(0, |piece| piece.after);
        (before, self.pieces.get(first + 1..=last).unwrap_or_default())
    }
}
