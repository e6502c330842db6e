//! Analyses of a recording, with results as plain data.
//!
//! Every function here is a pure function of a [`Trace`](vramscope_trace::Trace): the same recording gives the same result, and
//! the functions do no input or output. Start with a [`History`], which pairs frees with allocations and contains all lifetimes
//! and sizes.
//!
//! Sizes are in bytes; positions in a recording are [`Moment`]s.

//!
//! # Modules
//! - `moment`: a position between events; lifetimes are half-open ranges of moments. `history`: every allocation; `Quality` counts
//!   inconsistencies. `replayed` adds sizes from a replay. `segments`: reserved ranges over time, from the end state with every event
//!   undone. `skipped`: kinds of events that were left out (`skip_actions`).
//! - Shared by several questions: `changes` (starts and ends in order of time, used by every sweep over lifetimes), `layout` (contents of
//!   the device at one moment), `course` (all counters in one walk), `times`, `region_runs`, `segment_events`, `frames` (whose code a
//!   frame is).
//! - One file for each question: `counters`, `holders`, `holder_changes`, `tree`, `churn`, `leaks`, `fragmentation`, `pins`, `regions`,
//!   `facts`, `budget`, `growth`, `steps`, `layers`. `summary` asks everything about one device.
//! - `cancel`: long loops check it, and a canceled question ends without an answer. `beside`: work on a second thread, if the system has
//!   one.
//! - `purposes`: categories with their evidence. Recorded tags win (`tags`); otherwise `signs` (known frames), `phases` and `rules`
//!   decide.
//! - `rhythm`: repeated allocations, and where iterations begin.
//! - `out_of_memory`, `ooms`, `causes`, `diagnosis`: failed requests. `cards`: the cards on which a program fits, by replay.
//! - `packing`: offline packing. Effort is counted in steps, not in time, so answers are deterministic.
//! - `difference`, `diff`, `places`, `highest`: two recordings. `rules` explains stacks, from specific to general rules.
//! - `samples`: the same for logs of samples.
//! - `timeline`: pictures of any window. `replay`: the recorded requests under other settings.

mod amount;
mod beside;
mod both;
mod budget;
mod cancel;
mod cards;
mod causes;
mod changes;
mod churn;
mod column;
mod counters;
mod course;
mod diagnosis;
mod diff;
mod difference;
mod facts;
mod fragmentation;
mod frames;
mod growth;
mod highest;
mod history;
mod holder_changes;
mod holders;
mod layers;
mod layout;
mod leak_rounds;
mod leaks;
mod moment;
mod ooms;
mod out_of_memory;
mod packing;
mod parts;
mod pins;
mod places;
mod pools;
mod program_parts;
mod purposes;
mod range_max;
mod region_runs;
mod regions;
mod replay;
mod replayed;
mod rhythm;
mod samples;
mod segment_events;
mod segments;
mod skipped;
mod span_summary;
mod spans;
mod spent;
mod stack_filter;
mod steps;
mod stretch;
mod summary;
mod timeline;
mod times;
mod tree;

pub use amount::Amount;
pub use beside::at_once;
pub use both::{Both, Side};
pub use budget::{
    Budget, BudgetCheck, DeviceRecording, Growth, HighWater, Measured, Status, Unknown, Verdict,
};
pub use cancel::Cancel;
pub use cards::{Demand, Fit, OnCard, Replayed, on_cards, on_device};
pub use causes::{OomCause, OomCauseKind, OomCauses};
pub use changes::{Change, Changes};
pub use churn::churn;
pub use counters::{Counters, Peak, Peaks, Walk};
pub use diagnosis::Remedy;
pub use diff::{ChangedEvents, ComparedPart, DeviceDiff, Devices, PartOf, diff_devices};
pub use difference::{
    CategoryDifference, Cause, Compared as ComparedHistory, Difference, FEATURES, Feature, Finding,
    LineDifference, RULES, Rule, SettingDifference, StackDifference, changed_settings,
};
pub use facts::{DeviceFacts, Facts, Recorder};
pub use fragmentation::{Fragmentation, Request, Unusable, UnusableBlocks, largest_request};
pub use frames::{Code, Frames};
pub use growth::Grown;
pub use highest::{HighestChange, Within, highest_of_both};
pub use history::{Allocation, History, Origin, Quality};
pub use holder_changes::{HolderChange, HoldersOf, Marks, changed_holders, holders_of_both};
pub use holders::{
    By, Holder, HolderKey, Known, NothingMore, frame_key, holders_among, holders_at, stack_key,
};
pub use layers::{Layer, layers};
pub use layout::{FreeBlock, Hole, Layout};
pub use leak_rounds::leak_suspects;
pub use leaks::{LeakSuspect, WINDOWS, keeps_growing, rises};
pub use moment::Moment;
pub use ooms::{MOST_EXPLAINED, ooms};
pub use out_of_memory::OutOfMemory;
pub use packing::{Effort, Item, Packing, pack};
pub use pins::{Pin, Pins};
pub use places::Place;
pub use pools::for_each_with_pool;
pub use program_parts::{ProgramPart, RunBetween};
pub use purposes::{Basis, CATEGORY_RULES, CategoryRule, Evidence, Purposes, Reason, Told};
pub use region_runs::{RegionRun, region_runs};
pub use regions::{Region, RunFigures, regions};
pub use replay::{
    BestSetting, Capacity, CapacityFrom, DeviceReplay, Divergence, Doubt, EndBlock, Failure, FittingGpu,
    Floors, MemoryEvent, Nearest, Outcome, Recommended, Recorded, Replay, ReplayDevice, ReplayError,
    ReplayOptions, Reproduction, Setting, SettingChange, Tried, useful_settings,
};
pub use samples::{Growing, Outside, OutsidePart, PoolUse, QuantityRange, SamplesSummary, Spike};
pub use segments::ReservedRange;
pub use skipped::SkippedActions;
pub use span_summary::{SpanOptions, SpanSummary, runs_between};
pub use spent::{Spent, SpentBy, SpentChange, SpentGroup, spent_by, spent_changes};
pub use steps::{Step, Steps, StepsFrom};
pub use stretch::Stretch;
pub use summary::{EndState, Options, Summary};
pub use timeline::{Axis, Bands, ByteKind, LARGEST_SIDE, NO_COLUMN, Picture, Span, Timeline, View, Window};
pub use times::event_times;
pub use tree::{CallTree, Calls, CallsOf, ComparedNode, Node, NodeKind, call_tree, compared_call_tree};

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
