//! First fit in tiers of size, each placed in one sweep through time.
//!
//! Placing the largest items first leaves holes that smaller ones fill. This is first fit decreasing, which greedy planners of
//! tensor memory also use (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Implemented
//! directly, it examines all neighbors of every item, thousands each in a long recording. Here, items of similar size form a
//! tier. A tier is placed first fit in time order, as by an allocator that knows the future: each free byte has a time until
//! which earlier tiers leave it free. A step costs a walk along a short [`Strip`], and memory is linear in the number of items.

use super::events::{Events, mirrored};
use super::strip::{Piece, Strip};
use super::tiers::{Shrink, Tiers};
use super::{Item, Packing, height};
use vramscope_basics::Cancel;

/// Returns the lowest of several sweeps. At least one runs; more run while none has reached `lower_bound` and steps are left.
/// After a cancellation, the result is meaningless.
pub(crate) fn pack(
    items: &[Item],
    events: &Events,
    lower_bound: u64,
    mut steps: u64,
    cancel: &Cancel,
) -> Packing {
    let mut best = Packing { offsets: Vec::new(), height: u64::MAX, lower_bound, exhausted: false };
    for (shrink, backwards, most_again) in TRIES {
        let tiers = Tiers::new(items, shrink, most_again);
        if !best.offsets.is_empty() && (best.height == lower_bound || tiers.steps > steps) {
            break;
        }
        steps = steps.saturating_sub(tiers.steps);
        let offsets = if backwards {
            sweep(&mirrored(items), &events.reversed(), &tiers, cancel)
        } else {
            sweep(items, events, &tiers, cancel)
        };
        let height = height(items, &offsets);
        if best.offsets.is_empty() || height < best.height {
            best = Packing { offsets, height, ..best };
        }
    }
    best
}

/// The variants of sweeps, in order of their success on recordings of training and on random lifetimes; no variant is always
/// best. Each has the factor between the sizes of two tiers, whether time runs backwards, and the limit on items swept again, per
/// hundred items.
const TRIES: [(Shrink, bool, usize); 7] = [
    (Shrink::Half, false, 25),
    (Shrink::Half, false, usize::MAX),
    (Shrink::Half, true, usize::MAX),
    (Shrink::ThreeQuarters, false, usize::MAX),
    (Shrink::ThreeQuarters, true, usize::MAX),
    (Shrink::Quarter, false, usize::MAX),
    (Shrink::Quarter, true, usize::MAX),
];

fn sweep(items: &[Item], events: &Events, tiers: &Tiers, cancel: &Cancel) -> Vec<u64> {
    let mut offsets = vec![0; items.len()];
    let mut after = After::default();
    for tier in 0..tiers.count {
        let up_to = |numbers: &[u32]| {
            numbers.iter().copied().filter(|&number| tiers.of[number as usize] <= tier).collect::<Vec<_>>()
        };
        // The last tier is swept over all items.
        let fewer;
        let events = if tier + 1 == tiers.count {
            events
        } else {
            fewer = Events { starts: up_to(&events.starts), ends: up_to(&events.ends) };
            &fewer
        };
        let is_placed = |number: u32| tiers.of[number as usize] < tier;
        let mut strip = Strip::new();
        strip.allow(events.starts.len());
        if tier > 0 {
            after.look_back(items, events, &offsets, is_placed, &mut strip);
        }
        place(items, events, &mut offsets, is_placed, &mut after, strip, cancel);
    }
    offsets
}

/// Places the unplaced items first fit, in the order in which they start, around the placed items.
fn place(
    items: &[Item],
    events: &Events,
    offsets: &mut [u64],
    is_placed: impl Fn(u32) -> bool,
    after: &mut After,
    mut strip: Strip,
    cancel: &Cancel,
) {
    let mut ends = events.ends.iter().copied().peekable();
    let starts = events.starts.chunk_by(|&a, &b| items[a as usize].from == items[b as usize].from);
    for (step, together) in starts.enumerate() {
        if cancel.is_cancelled_at(step) {
            return;
        }
        let now = items[together[0] as usize].from;
        while let Some(gone) = ends.next_if(|&number| items[number as usize].to <= now) {
            let (start, end) = bytes(items, offsets, gone);
            if is_placed(gone) {
                strip.replace(after.next(), end);
                after.done();
            } else {
                strip.mark(start, end, false);
            }
        }
        for &number in together.iter().filter(|&&number| is_placed(number)) {
            let (start, end) = bytes(items, offsets, number);
            strip.mark(start, end, true);
        }
        for &number in together.iter().filter(|&&number| !is_placed(number)) {
            let item = &items[number as usize];
            if let Some(start) = strip.find(item.size, item.to) {
                offsets[number as usize] = start;
                strip.mark(start, start + item.size, true);
            } else {
                // The packing needs more bytes than 64 bits can count, and the height shows this. An item of no bytes conflicts
                // with no other.
                offsets[number as usize] = u64::MAX;
            }
        }
    }
}

/// Returns the byte range of a placed item as (start, end).
fn bytes(items: &[Item], offsets: &[u64], number: u32) -> (u64, u64) {
    let start = offsets[number as usize];
    (start, start.saturating_add(items[number as usize].size))
}

/// The pieces that follow in the bytes of each placed item once it has ended.
///
/// Rectangles that see each other along the time axis form a planar graph, so the total length of all lists is linear in the
/// number of items.
#[derive(Default)]
struct After {
    pieces: Vec<Piece>,
    /// The start of each item's list; the last one belongs to the item that ends first.
    lists: Vec<usize>,
}

impl After {
    /// Returns the list of the placed item that ends next.
    fn next(&self) -> &[Piece] {
        &self.pieces[self.lists.last().copied().unwrap_or(0)..]
    }

    /// Removes the list of the item that has ended.
    fn done(&mut self) {
        self.pieces.truncate(self.lists.pop().unwrap_or(0));
    }

    /// Fills the lists going back in time; leaves the earliest state in `strip`.
    fn look_back(
        &mut self,
        items: &[Item],
        events: &Events,
        offsets: &[u64],
        is_placed: impl Fn(u32) -> bool,
        strip: &mut Strip,
    ) {
        self.pieces.clear();
        self.lists.clear();
        let take = |strip: &mut Strip, number: u32| {
            let (start, end) = bytes(items, offsets, number);
            if start < end {
                strip.replace(&[Piece { start, until: items[number as usize].from, held: false }], end);
            }
        };
        let mut starts = events.starts.iter().rev().copied().filter(|&number| is_placed(number)).peekable();
        for gone in events.ends.iter().rev().copied().filter(|&number| is_placed(number)) {
            while let Some(later) =
                starts.next_if(|&later| items[later as usize].from >= items[gone as usize].to)
            {
                take(strip, later);
            }
            let (start, end) = bytes(items, offsets, gone);
            self.lists.push(self.pieces.len());
            strip.read(start, end, &mut self.pieces);
        }
        for first in starts {
            take(strip, first);
        }
    }
}
