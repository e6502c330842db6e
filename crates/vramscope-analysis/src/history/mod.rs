//! The history of a device: its allocations, its segments and its counters at every moment.
//!
//! - `moment`: a position between events; lifetimes are half-open ranges of moments.
//! - `allocations`: [`History`], all allocations with lifetimes and sizes.
//! - `quality`: what contradicts itself, is not recorded, or is inferred.
//! - `lifetime_changes`: begins and ends in time order, for every sweep over lifetimes.
//! - `counters`: the four counters at every moment, and their peaks.
//! - `certain`: the bytes that a damaged recording shows for certain.
//! - `interval`: the allocations and the peak of an interval.
//! - `segments`: reserved ranges over time, from the end state with every event undone. `segment_events`: the events that change them.
//! - `layout`: the blocks and holes of the device at one moment.
//! - `pools`: the pools of allocations whose own events do not name them.
//! - `skipped`: kinds of events that were left out (`skip_actions`).
//! - `event_times`: the times of events, never decreasing.
//! - `end_state`: sums over the end state.
//! - `state`: the segments and blocks at one moment, as a snapshot has them.
//! - `recording_facts`: the contents of a recording and the releases that could have written it.

mod allocations;
mod certain;
mod counters;
mod end_state;
mod event_times;
mod interval;
mod layout;
mod lifetime_changes;
mod moment;
mod pools;
mod quality;
mod recording_facts;
mod segment_events;
mod segments;
mod skipped;
mod state;

pub use allocations::{History, Origin, RecordedAllocation};
pub use counters::{Counters, Peak, Peaks, Walk};
pub use end_state::EndState;
pub use event_times::event_times;
pub(crate) use event_times::rising_times;
pub use interval::Interval;
pub use layout::{FreeBlock, Hole, Layout};
pub use lifetime_changes::{LifetimeChange, LifetimeChanges};
pub use moment::{Moment, When};
pub use pools::for_each_with_pool;
pub use quality::{Contradictions, Inferred, Missing, Quality};
pub use recording_facts::{DeviceFacts, Recorder, RecordingFacts};
pub(crate) use segment_events::{is_growth, is_release, segment_events};
pub use segments::ReservedRange;
pub use skipped::SkippedActions;
