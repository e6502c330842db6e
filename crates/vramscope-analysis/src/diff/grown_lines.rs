//! Lines that hold more memory than in another recording. [`CodePlaces`] matches the lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::code_places::{CodePlace, CodePlaces, Coded};
use crate::basics::{Both, Side};
use crate::groups::{By, Holder, HolderKey, holders_at};
use crate::history::{History, Moment, Origin};
use crate::stacks::Frames;

/// A line that holds more bytes than in the other recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrownLine {
    /// The line or function.
    pub place: CodePlace,
    /// The memory was live before recording began, and only its free was recorded: the place is where it was freed.
    pub freed_there: bool,
    /// Allocated bytes in the newer recording.
    pub bytes: u64,
    /// Allocated bytes in the older recording.
    pub was: u64,
}

impl GrownLine {
    /// Returns the growth in bytes.
    pub fn by(&self) -> u64 {
        self.bytes.saturating_sub(self.was)
    }
}

/// A recording at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryAt<'h> {
    pub(crate) history: &'h History,
    pub(crate) frames: &'h Frames,
    pub(crate) moment: Moment,
}

/// Returns the lines that hold more allocated bytes at `new` than at `old`, largest growth first.
pub(crate) fn grown_lines(new: HistoryAt<'_>, old: HistoryAt<'_>) -> Vec<GrownLine> {
    let line = |holder: &Holder| match holder.key {
        HolderKey::Line(frame) => Some(frame),
        _ => None,
    };
    let at = Both { a: old, b: new };
    let held = at.map(|at| holders_at(at.history, at.frames, at.moment, By::Line));
    let coded = at.map(|at| Coded { trace: at.history.trace(), frames: at.frames });
    // Holders come largest first, so a function is named by the line that holds most.
    let places = CodePlaces::of(coded, &held.map(|held| held.iter().filter_map(line).collect()));
    let mut sums: BTreeMap<(bool, Option<_>), Both<u64>> = BTreeMap::new();
    for side in Side::BOTH {
        for holder in held.of(side) {
            let place = line(holder).and_then(|frame| places.place(side, frame));
            let freed_there = holder.origin == Some(Origin::FreeOnly);
            *sums.entry((freed_there, place)).or_default().of_mut(side) += holder.bytes;
        }
    }
    let grown = sums.into_iter().filter(|(_, bytes)| bytes.b > bytes.a);
    let mut grown: Vec<GrownLine> = grown
        .map(|((freed_there, place), bytes)| GrownLine {
            place: place
                .and_then(|place| places.get(place).in_recording(Side::B))
                .unwrap_or(CodePlace::NoStack),
            freed_there,
            bytes: bytes.b,
            was: bytes.a,
        })
        .collect();
    grown.sort_by_key(|g| Reverse(g.by()));
    grown
}
