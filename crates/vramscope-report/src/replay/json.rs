//! JSON of `vramscope replay --json`.

use serde::Serialize;
use vramscope_analysis::{
    CapacityFrom, DeviceReplay, EndBlock, FittingGpu, HolderKey, MemoryEvent, Outcome, PlanReplay,
    ReplayDifference, ReplayLimitation, Served, Tried,
};

use crate::answers::ReplayAnswers;
use crate::json::stacks::Builder;
use crate::names::Names;
use crate::report::NearestJson;
use crate::report::out_of_memory::OomJson;

/// The output of `vramscope replay --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ReplayedDevices"))]
pub struct ReplayJson {
    file: String,
    devices: Vec<DeviceReplayJson>,
}

/// The result of replaying the recorded requests.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Replay"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReplayDevice"))]
pub(crate) struct DeviceReplayJson {
    device: i64,
    events: usize,
    /// The PyTorch release whose rules were followed; null if the recording is not from PyTorch.
    torch: Option<String>,
    /// The settings of `replayed`.
    conf: String,
    recorded_conf: String,
    capacity_bytes: Option<u64>,
    overhead_bytes: Option<u64>,
    /// `given`, or `recording`: inferred from the allocator's memory when the recording ran out of memory.
    capacity_from: Option<&'static str>,
    recorded: RecordedJson,
    replayed: ReplayedJson,
    /// Null if the requested settings differ from the recorded ones, nothing was recorded, or events that are needed for the
    /// comparison were left out.
    reproduces_recording: Option<bool>,
    first_divergence: Option<ReplayDifferenceJson>,
    /// Whether the layout at the end could be compared.
    compared_end: bool,
    /// Whether the numbers of `replayed` are exact.
    exact: bool,
    approximate_because: Vec<String>,
    /// The compared settings, best first.
    what_if: Vec<TriedJson>,
    /// Like `approximate_because`, for settings other than the recorded ones.
    what_if_approximate_because: Vec<String>,
    /// With `--plan`; null if it was not requested, or if the recording is too large for a plan.
    plan: Option<PlanJson>,
    floors: FloorsJson,
    /// With `--find-capacity`; null if none was found.
    smallest_capacity_bytes: Option<u64>,
    /// With `--find-capacity`: the known GPU with the least memory that fits the run.
    smallest_gpu: Option<GpuJson>,
    /// Present if no tried setting fits on the device.
    nearest: Option<NearestJson>,
}

/// A GPU on which a run fits.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FittingGpu"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "FittingGpu"))]
pub(crate) struct GpuJson {
    name: &'static str,
    driver_name: &'static str,
    total_bytes: u64,
    /// The part of `total_bytes` that the allocator cannot use.
    overhead_bytes: u64,
    peak_reserved_bytes: u64,
    num_alloc_retries: u64,
}

/// The figures of the recording itself.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Recorded"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Recorded"))]
pub(crate) struct RecordedJson {
    peak_reserved_bytes: u64,
    segments_allocated: u64,
    segments_freed: u64,
}

/// The result of the requested settings.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Replayed"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Replayed"))]
pub(crate) struct ReplayedJson {
    #[serde(flatten)]
    outcome: OutcomeJson,
    oom: Option<ReplayOomJson>,
}

/// The result of replaying with one setting.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Outcome"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Outcome"))]
pub(crate) struct OutcomeJson {
    peak_requested_bytes: u64,
    peak_allocated_bytes: u64,
    peak_active_bytes: u64,
    peak_reserved_bytes: u64,
    end_reserved_bytes: u64,
    /// Bytes reserved and not active at the peak of active bytes.
    external_fragmentation_bytes: u64,
    /// Whole segments; ranges mapped into expandable segments do not count, as in PyTorch.
    segments_allocated: u64,
    segments_freed: u64,
    /// Segments and mapped ranges.
    device_allocs: u64,
    device_frees: u64,
    num_alloc_retries: u64,
    /// Null if the device size is unknown.
    fits: Option<bool>,
    /// Number of requests that failed in the recording and succeed here. What the program would have done afterwards is
    /// unknown.
    rescued_requests: usize,
    /// The event at which the replay stopped, because the program would have failed there.
    stopped_at_event: Option<usize>,
}

/// The request that fails in a replay.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ReplayOutOfMemory"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReplayOom"))]
pub(crate) struct ReplayOomJson {
    /// Whether it also failed in the recording.
    recorded: bool,
    #[serde(flatten)]
    explained: OomJson,
}

/// A tried setting and its result.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Tried"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Tried"))]
pub(crate) struct TriedJson {
    conf: String,
    /// Whether these are the recorded settings.
    recorded: bool,
    #[serde(flatten)]
    outcome: OutcomeJson,
    oom_event: Option<usize>,
    /// Settings added to and removed from the recorded ones.
    add: Vec<String>,
    /// Items to remove from the recorded settings.
    remove: Vec<String>,
}

/// The result of replaying with a plan before the allocator of the replayed settings.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PlanReplay"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "PlanReplay"))]
pub(crate) struct PlanJson {
    /// The planned step, from 1; null if nothing repeats, or if the plan comes from a file.
    step: Option<usize>,
    /// Number of requests before the planned step.
    startup_requests: usize,
    /// Number of requests of the planned step.
    step_requests: usize,
    /// Bytes of the plan's segments.
    planned_bytes: u64,
    /// Whether streams share a segment.
    shares_streams: bool,
    /// Number of requests of a planned step that get memory which another stream used last, so that their stream waits for that one.
    waits_per_step: usize,
    /// Number of such requests of the replay.
    waits: u64,
    /// The result with a segment for each stream; null if streams share none, or if the plan comes from a file.
    separate: Option<OutcomeJson>,
    #[serde(flatten)]
    outcome: OutcomeJson,
    oom_event: Option<usize>,
    /// Requests at their planned places.
    planned: ServedJson,
    /// Requests that the plan leaves to the allocator, because their lifetimes do not repeat.
    left_to_allocator: ServedJson,
    /// Requests that differ from the plan: another size, another order, or a private pool.
    differing: ServedJson,
    /// Requests whose planned places were still in use.
    in_use: ServedJson,
    /// Requests without memory at their planned places.
    no_memory: ServedJson,
    /// The lines with the most bytes that were not at planned places, largest first.
    dynamic_lines: Vec<DynamicLineJson>,
}

/// A number of requests and their bytes, rounded up to multiples of 512.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ServedRequests"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ServedRequests"))]
pub(crate) struct ServedJson {
    requests: u64,
    bytes: u64,
}

/// A line whose requests were not at planned places.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DynamicLine"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "DynamicLine"))]
pub(crate) struct DynamicLineJson {
    line: String,
    requests: u64,
    bytes: u64,
}

/// The least memory that any allocator needs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Floors"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Floors"))]
pub(crate) struct FloorsJson {
    active_bytes: u64,
    packed_bytes: u64,
    packed_is_optimal: bool,
}

/// The first difference between replay and recording.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Divergence"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Divergence"))]
pub(crate) struct ReplayDifferenceJson {
    /// Null if every event is reproduced, but not the layout at the end.
    event: Option<usize>,
    recorded: Option<SideJson>,
    replayed: Option<SideJson>,
}

/// One side of a difference.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Side"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Side"))]
pub(crate) struct SideJson {
    /// The event's action, or the block's state.
    what: &'static str,
    address: u64,
    bytes: u64,
}

impl ReplayJson {
    /// The output for `answers`.
    pub fn new(answers: &ReplayAnswers<'_>) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        let builder = Builder::new(names, None);
        Self {
            file: answers.file.to_owned(),
            devices: answers.devices.iter().map(|d| device(&names, &builder, d)).collect(),
        }
    }
}

fn device(names: &Names<'_>, builder: &Builder<'_>, d: &DeviceReplay) -> DeviceReplayJson {
    let knows_capacity = d.capacity.is_some();
    let oom = d.oom.as_ref().map(|oom| ReplayOomJson {
        recorded: d.asked.outcome.failure.is_some_and(|f| f.recorded),
        explained: builder.oom(oom),
    });
    DeviceReplayJson {
        device: d.device,
        events: d.events,
        torch: d.release.map(|release| release.to_string()),
        conf: d.asked.setting.conf.clone(),
        recorded_conf: d.recorded_setting.conf.clone(),
        capacity_bytes: d.capacity.map(|(c, _)| c.total),
        overhead_bytes: d.capacity.map(|(c, _)| c.overhead),
        capacity_from: d.capacity.map(|(_, from)| match from {
            CapacityFrom::Given => "given",
            CapacityFrom::Recording => "recording",
        }),
        recorded: RecordedJson {
            peak_reserved_bytes: d.recorded.peak_reserved,
            segments_allocated: d.recorded.segments_allocated,
            segments_freed: d.recorded.segments_freed,
        },
        replayed: ReplayedJson { outcome: outcome(&d.asked.outcome, knows_capacity), oom },
        reproduces_recording: d.reproduced.filter(|_| !d.is_what_if),
        compared_end: d.compared_end,
        first_divergence: d.first_difference.map(first_difference),
        exact: d.limitations.is_empty(),
        approximate_because: d.limitations.iter().map(limitation).collect(),
        what_if: d.tried.iter().map(|t| tried(d, t)).collect(),
        what_if_approximate_because: d.what_if_limitations.iter().map(limitation).collect(),
        plan: d.plan.as_ref().map(|plan| plan_json(names, plan, knows_capacity)),
        floors: FloorsJson {
            active_bytes: d.lower_bounds.active,
            packed_bytes: d.lower_bounds.packed,
            packed_is_optimal: d.lower_bounds.is_optimal,
        },
        smallest_capacity_bytes: d.smallest.as_ref().filter(|(_, o)| o.fits()).map(|&(bytes, _)| bytes),
        smallest_gpu: d.smallest_gpu.as_ref().map(|FittingGpu { gpu, overhead, outcome }| GpuJson {
            name: gpu.name,
            driver_name: gpu.full,
            total_bytes: gpu.total_bytes,
            overhead_bytes: *overhead,
            peak_reserved_bytes: outcome.statistics.reserved.peak,
            num_alloc_retries: outcome.statistics.num_alloc_retries,
        }),
        nearest: d.nearest.as_ref().map(NearestJson::of),
    }
}

fn outcome(o: &Outcome, knows_capacity: bool) -> OutcomeJson {
    let s = &o.statistics;
    OutcomeJson {
        peak_requested_bytes: s.requested.peak,
        peak_allocated_bytes: s.allocated.peak,
        peak_active_bytes: s.active.peak,
        peak_reserved_bytes: s.reserved.peak,
        end_reserved_bytes: s.reserved.current,
        external_fragmentation_bytes: o.external_at_peak,
        segments_allocated: s.segments_allocated,
        segments_freed: s.segments_freed,
        device_allocs: s.num_device_alloc,
        device_frees: s.num_device_free,
        num_alloc_retries: s.num_alloc_retries,
        fits: (knows_capacity || !o.fits()).then_some(o.fits()),
        rescued_requests: o.rescued,
        stopped_at_event: o.failure.filter(|_| o.stopped).map(|f| f.event),
    }
}

fn tried(d: &DeviceReplay, t: &Tried) -> TriedJson {
    let change = d.change(t);
    TriedJson {
        conf: t.setting.conf.clone(),
        recorded: t.setting.policy == d.recorded_setting.policy,
        outcome: outcome(&t.outcome, d.capacity.is_some()),
        oom_event: t.outcome.failure.map(|f| f.event),
        add: change.add,
        remove: change.remove,
    }
}

fn plan_json(names: &Names<'_>, p: &PlanReplay, knows_capacity: bool) -> PlanJson {
    let served = |s: Served| ServedJson { requests: s.requests, bytes: s.bytes };
    let lines = p.dynamic_lines.iter().map(|line| DynamicLineJson {
        line: names.key(&line.frame.map_or(HolderKey::NoStack, HolderKey::Line)).into(),
        requests: line.served.requests,
        bytes: line.served.bytes,
    });
    PlanJson {
        step: p.made.as_ref().and_then(|made| made.step).map(|step| step + 1),
        startup_requests: p.plan.startup().len(),
        step_requests: p.plan.step().len(),
        planned_bytes: p.plan.bytes(),
        shares_streams: p.plan.shares_streams(),
        waits_per_step: p.plan.waits(),
        waits: p.usage.waits,
        separate: p.separate.as_ref().map(|separate| outcome(separate, knows_capacity)),
        outcome: outcome(&p.outcome, knows_capacity),
        oom_event: p.outcome.failure.map(|f| f.event),
        planned: served(p.usage.planned),
        left_to_allocator: served(p.usage.left),
        differing: served(p.usage.differing),
        in_use: served(p.usage.in_use),
        no_memory: served(p.usage.no_memory),
        dynamic_lines: lines.collect(),
    }
}

fn first_difference(d: ReplayDifference) -> ReplayDifferenceJson {
    match d {
        ReplayDifference::Event { event, recorded, replayed } => {
            let side = |h: MemoryEvent| SideJson { what: h.action.name(), address: h.address, bytes: h.size };
            ReplayDifferenceJson {
                event: Some(event),
                recorded: recorded.map(side),
                replayed: replayed.map(side),
            }
        }
        ReplayDifference::EndState { recorded, replayed } => {
            let side = |b: EndBlock| SideJson { what: b.state.name(), address: b.address, bytes: b.size };
            ReplayDifferenceJson { event: None, recorded: recorded.map(side), replayed: replayed.map(side) }
        }
    }
}

fn limitation(limitation: &ReplayLimitation) -> String {
    match *limitation {
        ReplayLimitation::Diverges => "diverges".to_owned(),
        ReplayLimitation::SettingsAssumed => "settings_assumed".to_owned(),
        ReplayLimitation::Overflowed => "probably_overflowed".to_owned(),
        ReplayLimitation::Preexisting(n) => format!("preexisting_blocks:{n}"),
        ReplayLimitation::OtherAllocator => "other_allocator".to_owned(),
        ReplayLimitation::InferredSizes(n) => format!("inferred_sizes:{n}"),
        ReplayLimitation::Misplaced(n) => format!("misplaced_blocks:{n}"),
        ReplayLimitation::EndStateDisagreements(n) => format!("end_state_disagreements:{n}"),
        ReplayLimitation::GuessedLimit => "guessed_limit".to_owned(),
        ReplayLimitation::SeenFromOutside => "seen_from_outside".to_owned(),
        ReplayLimitation::RoundedRequests => "rounded_requests".to_owned(),
        ReplayLimitation::LostEvents(n) => format!("lost_events:{n}"),
        ReplayLimitation::SegmentContradictions(n) => format!("segment_contradictions:{n}"),
        ReplayLimitation::AssumedReleases(n) => format!("assumed_releases:{n}"),
        ReplayLimitation::UnknownLimit => "unknown_limit".to_owned(),
        ReplayLimitation::NoSegmentEvents => "no_segment_events".to_owned(),
        ReplayLimitation::Skipped(action) => format!("skipped_actions:{}", action.name()),
    }
}
