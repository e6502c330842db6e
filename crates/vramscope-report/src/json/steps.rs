//! JSON of the steps of a program that repeats itself, and of their phases.

use serde::Serialize;
use vramscope_analysis::{PhaseFrom, Steps, StepsFrom};

/// The steps and their source.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Steps"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Steps"))]
pub(super) struct StepsJson {
    /// `annotations`, `optimizer` or `rhythm`.
    told_by: &'static str,
    /// Index (from 0) of the first step, after the very first, whose allocations differ from those of most steps.
    first_unusual: Option<usize>,
    /// In order of time.
    steps: Vec<StepJson>,
}

/// One step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Step"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Step"))]
pub(super) struct StepJson {
    /// Half-open range `first_event..end_event` of event indices.
    first_event: usize,
    /// One past the last event index.
    end_event: usize,
    peak_allocated_bytes: u64,
    /// Event index of the peak; null before the first event.
    peak_event: Option<usize>,
    /// Bytes and number of all blocks allocated in the step.
    allocated_bytes: u64,
    allocations: u64,
    /// Allocated bytes after the step minus those before.
    kept_bytes: i64,
    /// Whether most steps make the same allocations.
    is_usual: bool,
}

/// One phase of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Phase"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Phase"))]
pub(super) struct PhaseJson {
    /// `forward`, `backward`, `optimizer` or `zero_grad`.
    phase: &'static str,
    /// `recorded`, `region`, `stacks` or `rhythm`; the last two are inferred.
    told_by: &'static str,
    /// Number of the step, from 1; null outside of all steps.
    step: Option<usize>,
    /// Half-open range `first_event..end_event` of event indices.
    first_event: usize,
    /// One past the last event index.
    end_event: usize,
    peak_allocated_bytes: u64,
    /// Event index of the peak; null before the first event.
    peak_event: Option<usize>,
    /// Bytes and number of all blocks allocated in the phase.
    allocated_bytes: u64,
    allocations: u64,
    /// Allocated bytes after the phase minus those before.
    kept_bytes: i64,
}

impl PhaseJson {
    /// `None` if no phases are known.
    pub(super) fn of(steps: &Steps) -> Option<Vec<Self>> {
        let each = steps.phases.iter().map(|p| Self {
            phase: p.phase.name(),
            told_by: match p.told_by {
                PhaseFrom::Recorded => "recorded",
                PhaseFrom::Region => "region",
                PhaseFrom::Stacks => "stacks",
                PhaseFrom::Rhythm => "rhythm",
            },
            step: p.step.map(|step| step + 1),
            first_event: p.from.index(),
            end_event: p.to.index(),
            peak_allocated_bytes: p.bytes.peak,
            peak_event: p.bytes.peak_moment.event(),
            allocated_bytes: p.bytes.allocated,
            allocations: p.bytes.allocations,
            kept_bytes: p.bytes.kept,
        });
        let each: Vec<Self> = each.collect();
        (!each.is_empty()).then_some(each)
    }
}

impl StepsJson {
    /// `None` if no steps are known.
    pub(super) fn of(steps: &Steps) -> Option<Self> {
        let told_by = match steps.told_by {
            StepsFrom::Annotations => "annotations",
            StepsFrom::Optimizer => "optimizer",
            StepsFrom::Rhythm => "rhythm",
        };
        let each = steps.steps.iter().map(|s| StepJson {
            first_event: s.from.index(),
            end_event: s.to.index(),
            peak_allocated_bytes: s.bytes.peak,
            peak_event: s.bytes.peak_moment.event(),
            allocated_bytes: s.bytes.allocated,
            allocations: s.bytes.allocations,
            kept_bytes: s.bytes.kept,
            is_usual: s.is_usual,
        });
        let each: Vec<StepJson> = each.collect();
        (!each.is_empty()).then_some(Self { told_by, first_unusual: steps.first_unusual(), steps: each })
    }
}
