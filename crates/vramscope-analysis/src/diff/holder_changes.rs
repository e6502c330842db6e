//! Changes of holders: groups of allocations at two moments, of one recording or of two.

use std::cmp::Reverse;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_trace::{FrameId, Trace};

use super::code_places::{CodePlaces, Coded, PlaceId};
use crate::basics::{Both, Side};
use crate::groups::{Amount, Holder, HolderKey};
use crate::history::Origin;
use crate::stacks::Frames;

/// A group of allocations at two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderChange {
    /// The group at each moment; `None` where it has no allocations.
    pub holders: Both<Option<Holder>>,
    /// The group is a whole function whose lines an edit moved; only when two recordings are compared.
    pub is_function: bool,
    /// Whether part of the group is marked on either side.
    pub is_marked: bool,
}

/// Returns whether part of a group is marked.
pub(crate) type IsMarked<'f> = &'f dyn Fn(Side, &Holder) -> bool;

impl HolderChange {
    /// Returns the bytes and number of allocations at each moment.
    #[must_use]
    pub fn held(&self) -> Both<Amount> {
        self.holders.map(|holder| holder.as_ref().map(Holder::held).unwrap_or_default())
    }

    /// Returns the side on which the group exists, if it is only one.
    #[must_use]
    pub fn only_in(&self) -> Option<Side> {
        match (&self.holders.a, &self.holders.b) {
            (Some(_), None) => Some(Side::A),
            (None, Some(_)) => Some(Side::B),
            _ => None,
        }
    }

    /// Returns the side whose names are used for the group: the later moment or second recording if the group exists there, else
    /// the other.
    #[must_use]
    pub fn side(&self) -> Side {
        if self.holders.b.is_some() { Side::B } else { Side::A }
    }
}

/// Matches the groups of one device at two moments, both made by the same grouping. The largest growth comes first, the largest
/// decrease last. `marked` returns whether part of a group is marked.
#[must_use]
pub fn changed_holders(at: Both<Vec<Holder>>, marked: IsMarked<'_>) -> Vec<HolderChange> {
    let keyed = |side: Side, holders: Vec<Holder>| {
        let keyed = holders.into_iter().map(|holder| Keyed {
            key: (holder.origin, holder.key.clone()),
            is_function: false,
            is_marked: marked(side, &holder),
            holder,
        });
        keyed.collect::<Vec<_>>()
    };
    sorted(matched(Both { a: keyed(Side::A, at.a), b: keyed(Side::B, at.b) }).changes)
}

/// The groups of a recording at a moment.
#[derive(Debug, Clone)]
pub struct HoldersOf<'t> {
    /// The recording.
    pub trace: &'t Trace,
    /// The classification of the recording's frames.
    pub frames: &'t Frames,
    /// The groups.
    pub holders: Vec<Holder>,
}

/// Like [`changed_holders`], for two recordings. They share no ids. So lines, functions and files are matched by their text, and
/// lines that an edit moved by their function. Pools, streams, layers and steps are matched by their names.
#[must_use]
pub fn holders_of_both(of: Both<HoldersOf<'_>>, marked: IsMarked<'_>) -> Vec<HolderChange> {
    sorted(matched_holders(&of, marked).changes)
}

/// Matches the groups of both recordings.
pub(crate) fn matched_holders(of: &Both<HoldersOf<'_>>, marked: IsMarked<'_>) -> Matched {
    let coded = Both { a: &of.a, b: &of.b }.map(|of| Coded { trace: of.trace, frames: of.frames });
    let used = |side: Side| {
        let (coded, of) = (coded.of(side), of.of(side));
        let frames = of.holders.iter().flat_map(|holder| {
            let stack = match holder.key {
                HolderKey::Stack(stack) => coded.telling(stack),
                _ => Vec::new(),
            };
            stack.into_iter().chain(own(of, holder))
        });
        frames.collect::<Vec<FrameId>>()
    };
    let places = CodePlaces::of(coded, &Both { a: used(Side::A), b: used(Side::B) });
    let keyed = |side: Side| {
        let (coded, of) = (coded.of(side), of.of(side));
        let keyed = of.holders.iter().map(|holder| {
            let place = own(of, holder).and_then(|frame| places.place(side, frame));
            let at = place.map(|place| places.get(place));
            let mut is_function = false;
            let key = match (&holder.key, at) {
                (HolderKey::Line(_), Some(at)) => {
                    is_function = at.is_function;
                    MatchKey::Line(place)
                }
                (HolderKey::Stack(stack), _) => {
                    let frames = coded.telling(*stack);
                    MatchKey::Stack(
                        place,
                        frames.iter().filter_map(|&frame| places.place(side, frame)).collect(),
                    )
                }
                (HolderKey::Function(..), Some(at)) => {
                    MatchKey::Function(at.file_number, at.function.clone())
                }
                (HolderKey::File(_), Some(at)) => MatchKey::File(at.file_number),
                (key, _) => MatchKey::Same(key.clone()),
            };
            // Memory that was live before recording forms separate groups only if its stack is that of its free.
            let origin = holder.origin.filter(|&origin| origin == Origin::FreeOnly);
            Keyed {
                key: (key, origin),
                is_function,
                is_marked: marked(side, holder),
                holder: Holder { origin, ..holder.clone() },
            }
        });
        keyed.collect::<Vec<_>>()
    };
    matched(Both { a: keyed(Side::A), b: keyed(Side::B) })
}

/// The key that matches a group across two recordings.
#[derive(Debug, PartialEq, Eq, Hash)]
enum MatchKey {
    Line(Option<PlaceId>),
    Stack(Option<PlaceId>, Vec<PlaceId>),
    /// The number of its file, and its name.
    Function(usize, Arc<str>),
    File(usize),
    Same(HolderKey),
}

/// Returns the own frame of a group's stack.
fn own(of: &HoldersOf<'_>, holder: &Holder) -> Option<FrameId> {
    of.frames.own_frame(of.trace, holder.stack?)
}

/// A group with its key.
struct Keyed<K> {
    key: K,
    is_function: bool,
    is_marked: bool,
    holder: Holder,
}

/// The matched groups of both sides.
pub(crate) struct Matched {
    pub changes: Vec<HolderChange>,
    /// For each group of each side, the index of its change.
    pub change_of: Both<Vec<usize>>,
}

/// Merges groups with equal keys.
fn matched<K: Hash + Eq>(of: Both<Vec<Keyed<K>>>) -> Matched {
    let mut index: HashMap<K, usize> = HashMap::new();
    let mut changes: Vec<HolderChange> = Vec::new();
    let mut change_of = Both { a: Vec::new(), b: Vec::new() };
    // The later side comes first, so that it stays first among equals.
    for (side, groups) in [(Side::B, of.b), (Side::A, of.a)] {
        for Keyed { key, is_function, is_marked, holder } in groups {
            let number = *index.entry(key).or_insert_with(|| {
                let holders = Both { a: None, b: None };
                changes.push(HolderChange { holders, is_function, is_marked: false });
                changes.len() - 1
            });
            change_of.of_mut(side).push(number);
            let change = &mut changes[number];
            change.is_marked |= is_marked;
            match change.holders.of_mut(side) {
                Some(known) => known.add(holder.held()),
                none => *none = Some(holder),
            }
        }
    }
    Matched { changes, change_of }
}

/// Sorts by growth: the largest first, the largest decrease last.
fn sorted(mut changes: Vec<HolderChange>) -> Vec<HolderChange> {
    changes.sort_by_key(|change| Reverse(change.held().map(|held| held.bytes).difference()));
    changes
}
