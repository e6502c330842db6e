//! Allocated bytes by category, over a window.

use vramscope_trace::Category;

use super::{Axis, Shown, Timeline};
use crate::cancel::Cancel;

/// A part of the horizontal axis, and how many pixel columns show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// What the axis counts.
    pub axis: Axis,
    /// Where it begins, in the unit of the axis.
    pub from: f64,
    /// Where it ends, in the unit of the axis.
    pub to: f64,
    /// Pixel columns, at most [`LARGEST_SIDE`](super::LARGEST_SIDE).
    pub width: u16,
}

/// What allocated memory is for, over a window: each pixel column shows the first moment in it at which most was allocated, the one
/// that a [`Picture`](super::Picture) of allocated bytes shows. The bytes of all categories sum to what is allocated at that moment,
/// to the byte, so the upper edge is the curve of allocated bytes at any zoom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bands {
    /// The position in `moment` of each pixel column; [`NO_COLUMN`](super::NO_COLUMN) outside of the recording.
    pub column: Vec<u32>,
    /// The numbers of the moments that are shown, which rise.
    pub moment: Vec<u32>,
    /// Bytes of each category at each of `moment`, in the order of [`Category::ALL`]. Those without any bytes are left out.
    pub bytes: Vec<(Category, Vec<u64>)>,
}

impl Timeline {
    /// The bytes of each category in `span`; `category` tells it for the number of an allocation. `None` where the answer is no
    /// longer wanted. Time depends on what lives at the moments that are shown, as that of a picture does.
    pub fn bands_unless(
        &self,
        span: &Span,
        category: impl Fn(u32) -> Category,
        cancel: &Cancel,
    ) -> Option<Bands> {
        let Shown { column, moment } = Shown::highest(&self.counters[1], &self.ranges(span));
        // What begins and what ends with each moment that is shown: running sums of it are the bytes.
        let mut changes = Category::ALL.map(|_| Vec::new());
        let mut begin = 0;
        for (step, position) in self.allocated.at_any(&moment).enumerate() {
            if cancel.is_cancelled_at(step) {
                return None;
            }
            // Births only grow later.
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
