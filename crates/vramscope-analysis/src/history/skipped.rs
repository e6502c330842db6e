//! Detects kinds of events that were left out of a recording.

use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use vramscope_engine::Policy;
use vramscope_trace::{Action, BlockState, DeviceTrace};

use super::moment::Moment;
use super::segments::Reserved;

/// The kinds of events that a recording left out (`skip_actions` of `_record_memory_history`).
///
/// Files do not contain them. A kind is detected if no event of it was recorded, although the recorded data shows that such
/// events happened: an address that is allocated twice was freed in between. A kind that possibly never happened is not included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedActions(u16);

impl SkippedActions {
    /// Whether no kind of event is known to be left out.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether events of this kind were left out.
    pub fn contains(self, action: Action) -> bool {
        self.0 & bit(action) != 0
    }

    /// Returns the kinds that were left out, in the order of [`Action::KNOWN`].
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::KNOWN.into_iter().filter(move |&action| self.contains(action))
    }

    /// Whether segment events were left out, so that the reserved bytes over time are unknown.
    pub fn segments(self) -> bool {
        [Action::SegmentAlloc, Action::SegmentFree, Action::SegmentMap, Action::SegmentUnmap]
            .into_iter()
            .any(|action| self.contains(action))
    }

    fn set(&mut self, action: Action, is_skipped: bool) {
        if is_skipped {
            self.0 |= bit(action);
        }
    }

    /// Detects the kinds that were left out of `device`, whose reserved ranges are `reserved`.
    pub(crate) fn of(device: &DeviceTrace, policy: &Policy, reserved: &Reserved) -> Self {
        let mut this = Self::default();
        let has = RecordedKinds::of(device);
        if device.events.is_empty() || (has.all_of_blocks() && has.growth && has.release) {
            return this;
        }
        let is_whole = || !has.completed || end_is_whole(device);
        let grown_and_gone = has.growth && !has.release && reserved.contradictions > 0 && is_whole();
        if has.all_of_blocks() && has.growth {
            this.set_release(policy, grown_and_gone);
            return this;
        }
        let blocks = Blocks::of(device);
        // A file may have no segments at all.
        let places = if has.growth || reserved.ranges.is_empty() {
            Places::default()
        } else {
            Places::of(device, reserved)
        };

        let no_frees = !has.requested && !has.completed;
        let freed =
            no_frees && (blocks.reused_live || blocks.live_is_gone || (has.growth && emptied(device)));
        this.set(
            Action::Alloc,
            !has.alloc && (blocks.freed_twice || blocks.lives_again || grew_for_a_request(device)),
        );
        this.set(Action::FreeRequested, !has.requested && (freed || blocks.completed_unrequested));
        let reused = blocks.reused_requested || blocks.requested_twice || blocks.requested_is_gone;
        this.set(Action::FreeCompleted, !has.completed && (freed || reused));

        // Memory that was live before recording may have been in segments that are missing in the end state for another reason.
        let came_and_went = places.outside && !blocks.preexisting && is_whole();
        this.set_release(policy, grown_and_gone || (!has.release && came_and_went));
        let taken_again = places.after_release || (has.release && reserved.contradictions > 0);
        this.set_growth(policy, !has.growth && (came_and_went || taken_again));
        this
    }

    /// Records whether allocated segments were left out.
    pub(crate) fn set_growth(&mut self, policy: &Policy, is_skipped: bool) {
        let expandable = policy.expandable_segments;
        self.set(if expandable { Action::SegmentMap } else { Action::SegmentAlloc }, is_skipped);
    }

    fn set_release(&mut self, policy: &Policy, is_skipped: bool) {
        let expandable = policy.expandable_segments;
        self.set(if expandable { Action::SegmentUnmap } else { Action::SegmentFree }, is_skipped);
    }
}

fn bit(action: Action) -> u16 {
    1 << action as u16
}

/// The kinds of events of which the recording has at least one.
struct RecordedKinds {
    alloc: bool,
    requested: bool,
    completed: bool,
    growth: bool,
    release: bool,
}

impl RecordedKinds {
    fn of(device: &DeviceTrace) -> Self {
        let seen = device.events.actions().iter().fold(0, |seen, &action| seen | bit(action));
        let any = |actions: &[Action]| actions.iter().any(|&action| seen & bit(action) != 0);
        Self {
            alloc: any(&[Action::Alloc]),
            requested: any(&[Action::FreeRequested, Action::Free]),
            completed: any(&[Action::FreeCompleted, Action::Free]),
            growth: any(&[Action::SegmentAlloc, Action::SegmentMap]),
            release: any(&[Action::SegmentFree, Action::SegmentUnmap]),
        }
    }

    fn all_of_blocks(&self) -> bool {
        self.alloc && self.requested && self.completed
    }
}

/// Contradictions between the events of blocks, and between the events and the end state.
#[derive(Default)]
struct Blocks {
    /// Some blocks were live before the first event.
    preexisting: bool,
    /// An address was allocated again without a free.
    reused_live: bool,
    /// An address was allocated again before its free completed.
    reused_requested: bool,
    /// A recorded allocation became available without a free request.
    completed_unrequested: bool,
    requested_twice: bool,
    freed_twice: bool,
    /// A freed block is allocated at the end.
    lives_again: bool,
    /// A block that was never freed is free at the end.
    live_is_gone: bool,
    /// A block whose free was requested is free at the end, without a recorded completion.
    requested_is_gone: bool,
}

impl Blocks {
    fn of(device: &DeviceTrace) -> Self {
        let mut this = Self::default();
        // The last event at each address.
        let mut last: HashMap<u64, Action> = HashMap::new();
        for (i, &action) in device.events.actions().iter().enumerate() {
            let action = match action {
                Action::Alloc | Action::FreeRequested | Action::FreeCompleted => action,
                Action::Free => Action::FreeCompleted,
                _ => continue,
            };
            let before = last.insert(device.events.get(i).address(), action);
            match (before, action) {
                (Some(Action::Alloc), Action::Alloc) => this.reused_live = true,
                (Some(Action::FreeRequested), Action::Alloc) => this.reused_requested = true,
                (Some(Action::Alloc), Action::FreeCompleted) => this.completed_unrequested = true,
                (Some(Action::FreeRequested), Action::FreeRequested) => {
                    (this.requested_twice, this.freed_twice) = (true, true);
                }
                (Some(Action::FreeCompleted), Action::FreeRequested | Action::FreeCompleted) => {
                    this.freed_twice = true;
                }
                (None, Action::FreeRequested | Action::FreeCompleted) => this.preexisting = true,
                _ => {}
            }
        }
        if device.segments.is_empty() {
            return this;
        }
        for block in device.blocks.iter().filter(|b| b.state.is_active()) {
            match last.remove(&block.address) {
                None => this.preexisting = true,
                Some(Action::FreeCompleted) => this.lives_again = true,
                Some(Action::FreeRequested) if block.state == BlockState::ActiveAllocated => {
                    this.lives_again = true;
                }
                _ => {}
            }
        }
        this.live_is_gone = last.values().any(|&action| action == Action::Alloc);
        this.requested_is_gone = last.values().any(|&action| action == Action::FreeRequested);
        this
    }
}

/// The locations of allocations whose segments were not recorded.
#[derive(Default)]
struct Places {
    /// In memory that does not exist at the end, although it was not released.
    outside: bool,
    /// In memory that was released before.
    after_release: bool,
}

impl Places {
    fn of(device: &DeviceTrace, reserved: &Reserved) -> Self {
        let mut this = Self::default();
        for (i, _) in device.events.actions().iter().enumerate().filter(|e| *e.1 == Action::Alloc) {
            let address = device.events.get(i).address();
            let before = reserved.ranges.partition_point(|r| r.address <= address).checked_sub(1);
            match before.map(|i| &reserved.ranges[i]).filter(|r| address < r.end()) {
                None => this.outside = true,
                Some(range) if !range.lives_at(Moment::after(i)) => this.after_release = true,
                Some(_) => {}
            }
        }
        this
    }
}

/// Whether all recorded allocations that were not freed are in a segment of the end state. Otherwise the end state contains only
/// some of the segments.
fn end_is_whole(device: &DeviceTrace) -> bool {
    let is_there = |address: u64| {
        let before = device.segments.partition_point(|s| s.address <= address).checked_sub(1);
        before.is_some_and(|i| address - device.segments[i].address < device.segments[i].total_size)
    };
    let mut live_elsewhere = HashSet::new();
    for (i, &action) in device.events.actions().iter().enumerate() {
        match action {
            Action::Alloc => {
                let address = device.events.get(i).address();
                if !is_there(address) {
                    live_elsewhere.insert(address);
                }
            }
            Action::FreeRequested | Action::FreeCompleted | Action::Free => {
                live_elsewhere.remove(&device.events.get(i).address());
            }
            _ => {}
        }
    }
    live_elsewhere.is_empty()
}

/// Whether memory was taken from the device, which happens only for a request, but no following request was recorded.
fn grew_for_a_request(device: &DeviceTrace) -> bool {
    let ended = |action: &Action| matches!(action, Action::Oom | Action::Alloc);
    let after = device.events.actions().iter().rev().take_while(|action| !ended(action));
    after.into_iter().any(|action| matches!(action, Action::SegmentAlloc | Action::SegmentMap))
}

/// Whether a segment that was allocated while recording is empty at the end.
fn emptied(device: &DeviceTrace) -> bool {
    let taken = |address: u64| {
        let mut events = device.events.iter();
        events.any(|e| e.action == Action::SegmentAlloc && e.address() == address)
    };
    // A few represent all.
    let mut empty = device.segments.iter().take(64).filter(|s| {
        let blocks = device.blocks_of(s);
        !blocks.is_empty() && blocks.iter().all(|b| !b.state.is_active())
    });
    empty.any(|s| taken(s.address))
}
