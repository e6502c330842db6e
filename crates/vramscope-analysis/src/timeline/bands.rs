//! Allocated bytes by category over a window.

use vramscope_trace::Category;

use super::{Axis, Shown, Timeline};
use vramscope_basics::Cancel;

/// A part of the horizontal axis, with its number of pixel columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The unit of the axis.
    pub axis: Axis,
    /// The start, in the unit of the axis.
    pub from: f64,
    /// The end, in the unit of the axis.
    pub to: f64,
    /// Number of pixel columns, at most [`LARGEST_SIDE`](super::LARGEST_SIDE).
    pub width: u16,
}

/// Allocated bytes by category over a window. Each pixel column shows the moment of its peak of allocated bytes, the same one
/// that a [`Picture`](super::Picture) of allocated bytes shows. The bytes of all categories add up exactly to the allocated bytes
/// at that moment, so the upper edge is the curve of allocated bytes at any zoom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bands {
    /// For each pixel column, an index into `moment`; [`NO_COLUMN`](super::NO_COLUMN) outside of the recording.
    pub column: Vec<u32>,
    /// The indices of the shown moments, ascending.
    pub moment: Vec<u32>,
    /// Bytes of each category at each of `moment`, in the order of [`Category::ALL`]. Categories without any bytes are left out.
    pub bytes: Vec<(Category, Vec<u64>)>,
}

impl Timeline {
    /// Returns the bytes of each category in `span`; `category` returns the category for the index of an allocation. Returns
    /// `None` if cancelled. The time depends on the number of allocations at the shown moments, as for a picture.
    pub fn bands_unless(
        &self,
        span: &Span,
        category: impl Fn(u32) -> Category,
        cancel: &Cancel,
    ) -> Option<Bands> {
        let Shown { column, moment } = Shown::highest(&self.counters[1], &self.ranges(span));
        // The changes at each shown moment; their running sums are the bytes.
        let mut changes = Category::ALL.map(|_| Vec::new());
        let mut begin = 0;
        for (step, position) in self.allocated.at_any(&moment).enumerate() {
            if cancel.is_cancelled_at(step) {
                return None;
            }
            // Begins are ascending.
            let (from, to) = (self.allocated.from(position), self.allocated.to(position));
            while moment[begin] < from {
                begin += 1;
            }
            if moment[begin] >= to {
                continue;
            }
            let end = begin + moment[begin..].partition_point(|&m| m < to);
            let id = self.allocated.id(position);
            let bytes = self.history.allocations[id as usize].size;
            let of = &mut changes[category(id) as usize];
            if of.is_empty() {
                of.resize(moment.len() + 1, (0, 0));
            }
            of[begin].0 += bytes;
            of[end].1 += bytes;
        }
        let bytes = Category::ALL.into_iter().zip(changes).filter(|(_, changes)| !changes.is_empty()).map(
            |(category, changes)| {
                let sums = changes.iter().scan(0, |sum, &(begins, ends)| {
                    *sum = *sum + begins - ends;
                    Some(*sum)
                });
                (category, sums.take(moment.len()).collect())
            },
        );
        Some(Bands { bytes: bytes.collect(), column, moment })
    }
}
