//! Analyses of a recording, with results as plain data.
//!
//! Every function here is a pure function of a [`Trace`](vramscope_trace::Trace): the same recording gives the same result, and
//! the functions do no input or output. Start with a [`History`], which pairs frees with allocations and contains all lifetimes
//! and sizes.
//!
//! Sizes are in bytes; positions in a recording are [`Moment`]s.
//!
//! # Modules
//! Each folder's `mod.rs` lists its modules. From the bottom up:
//!
//! - `basics`: pairs, cancellation, a second thread.
//! - `history`: allocations, segments and counters at every moment. `stacks`: whose code a frame is.
//! - `categories`: what allocations are for, with the evidence. `regions`: annotated regions. `steps`: iterations of the program.
//! - `groups`: allocations by line, stack, category, step and so on; call trees.
//! - `findings`: leaks, idle memory, fragmentation, pins, out of memory and its causes.
//! - `estimates`: the peak with a change to the program, without a run.
//! - `replay`: the recorded requests under other settings and on other GPUs.
//! - `timeline`: pictures of any window.
//! - `operators`: operators and kernels of a trace of `torch.profiler`, beside a recording.
//! - `samples`: the same questions about logs of samples.
//! - `diff`: two recordings.
//! - `summary`: everything about one device, or about an interval.
//! - `known`: what a recording shows for certain although a part may be missing.
//! - `budget`: limits that a recording must keep.

mod basics;
mod budget;
mod categories;
mod diff;
mod estimates;
mod findings;
mod groups;
mod history;
mod known;
mod operators;
mod regions;
mod replay;
mod samples;
mod stacks;
mod steps;
mod summary;
mod timeline;

pub use basics::{Both, Side, at_once};
pub use budget::{Budget, BudgetCheck, DeviceVerdict, Growth, HighWater, Measured};
pub use categories::{
    AllocationCategories, Basis, CATEGORY_RULES, CategoryRule, Evidence, Reason, ReasonGroup,
};
pub use diff::{
    CategoryDifference, Cause, ChangedEvents, CodePlace, ComparedPart, DeviceDiff, DeviceHistory, Difference,
    Feature, Finding, FreedBytes, GroupPeakChange, GroupsInInterval, HolderChange, HoldersOf, LineDifference,
    RULES, Rule, SettingDifference, StackDifference, changed_holders, changed_settings, group_peaks_of_both,
    holders_of_both,
};
pub use estimates::{
    BlockCalls, Estimate, EstimateError, EstimatedChange, Estimates, Mark, MarkedAllocations, MarkedProgram,
    NoEstimate, ProgramChange, Unrecorded, smallest_gpu_for,
};
pub use findings::{
    AllocatorFinding, Certainty, FailedRequest, Fix, FixKind, Fragmentation, IdleFinding, IdleInterval,
    IdleKind, IdleMemory, IneffectiveAdvice, LateBlock, LeakSuspect, OomCause, OomCauseKind, OomCauses,
    OomExplanation, Pin, Pins, ReferredTensor, Request, Rise, StrandedCache, StrandedStream, UnbackedBytes,
    UnexplainedOoms, UnsplitGrowth, Unusable, UnusableBlocks, Uses, WINDOWS, keeps_growing, largest_request,
    leak_suspects, ooms, referred_tensors, rises, tensor_text,
};
pub use groups::{
    AllocationProperties, Amount, By, CallPath, CallTree, Calls, CallsOf, Collective, CollectiveUse,
    ComparedNode, DeviceUse, GraphCapture, Holder, HolderKey, HostCourse, HostMemory, IntervalGroup,
    IntervalGroupChange, IntervalGroups, IntervalTotals, Layer, LibraryUse, MeasuredUse, NO_GROUP,
    NoProperties, Node, NodeKind, NodeSet, Paths, PrivatePoolUse, ServingMemory, Transform, Transforms,
    compared_call_tree, frame_key, holders_among, holders_at, interval_group_changes, interval_groups,
    libraries, stack_key,
};
pub use history::{
    Contradictions, Counters, DeviceFacts, EndState, FreeBlock, History, Hole, Inferred, Interval, Layout,
    LifetimeChange, LifetimeChanges, Missing, Moment, Origin, Peak, Peaks, Quality, RecordedAllocation,
    Recorder, RecordingFacts, ReservedRange, SkippedActions, Walk, When, event_times, for_each_with_pool,
};
pub use known::{BudgetStatus, KnownBytes, Unknown};
pub use operators::{AlignedBy, Alignment, NotAligned, OperatorClock, OperatorMemory};
pub use regions::{Region, RegionRun, RunBetween, RunFigures, region_runs, regions, runs_between};
pub use replay::{
    BestSetting, Capacity, CapacityFrom, Demand, DeviceReplay, DynamicLine, EndBlock, Failure, Fit,
    FitReplay, FittingGpu, GpuFit, LessReserved, LowerBounds, MemoryEvent, Nearest, Outcome, PlanReplay,
    PlanSource, Recommended, Recorded, RecordedPlan, Replay, ReplayDevice, ReplayDifference, ReplayError,
    ReplayLimitation, ReplayOptions, Reproduction, Setting, SettingChange, StepPlan, Tried, fit_on_device,
    fit_on_gpus,
};
pub use samples::{Growing, Outside, OutsidePart, PoolUse, QuantityRange, SamplesSummary, Spike};
pub use stacks::{Code, Frames};
pub use steps::{
    IntervalBytes, PhaseFrom, PhaseTotals, ProgramPart, Step, StepPhase, Steps, StepsFrom, phase_totals,
};
pub use summary::{IntervalOptions, IntervalSummary, Options, Remedy, Summary};
pub use timeline::{
    Axis, Bands, ByteKind, FirstDifference, LARGEST_SIDE, NO_COLUMN, Picture, PictureWindow, Span, Timeline,
    View,
};
pub use vramscope_basics::Cancel;
pub use vramscope_engine::{Plan, PlanUse, PlannedRequest, Served};

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
