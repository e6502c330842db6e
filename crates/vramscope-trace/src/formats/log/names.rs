//! Names of values in a file, and their numbers in version 1.
//!
//! A file stores each value by its name, as a string. So the order of the values in the code does not matter, and an unknown name is
//! kept as text.

use crate::annotations::Stage;
use crate::end_state::{BlockState, SegmentKind};
use crate::events::Action;

/// Values that version 1 numbers from 0, in this order. Files have these numbers, so the lists must never change.
pub(super) mod version1 {
    use super::{Action, BlockState, SegmentKind, Stage};

    pub(in crate::formats::log) const ACTIONS: [Action; 12] = [
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::SegmentMap,
        Action::SegmentUnmap,
        Action::Snapshot,
        Action::Oom,
        Action::Annotate,
        Action::UserDefined,
        Action::Free,
    ];
    pub(in crate::formats::log) const KINDS: [SegmentKind; 3] =
        [SegmentKind::Small, SegmentKind::Large, SegmentKind::Unknown];
    pub(in crate::formats::log) const STATES: [BlockState; 3] =
        [BlockState::ActiveAllocated, BlockState::ActivePendingFree, BlockState::Inactive];
    pub(in crate::formats::log) const STAGES: [Stage; 2] = [Stage::Start, Stage::End];
}

/// Returns the names at the start of every file. They are its first strings, so their numbers take one byte.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    let actions = Action::KNOWN.into_iter().map(Action::name);
    let states = version1::STATES.into_iter().map(BlockState::name);
    let kinds = version1::KINDS.map(SegmentKind::name);
    actions.chain(kinds).chain(states).chain(version1::STAGES.map(Stage::name))
}

pub(super) fn action(name: &str) -> Option<Action> {
    Action::KNOWN.into_iter().find(|action| action.name() == name)
}

pub(super) fn kind(name: &str) -> Option<SegmentKind> {
    SegmentKind::ALL.into_iter().find(|kind| kind.name() == name)
}

pub(super) fn state(name: &str) -> Option<BlockState> {
    version1::STATES.into_iter().find(|state| state.name() == name)
}

pub(super) fn stage(name: &str) -> Option<Stage> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name)
}
