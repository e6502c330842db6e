//! The steps of a program that repeats itself.

use serde::Serialize;
use vramscope_analysis::{Steps, StepsFrom};

/// What is known of steps.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Steps"))]
pub(super) struct StepsJson {
    /// `annotations`, `optimizer` or `rhythm`.
    told_by: &'static str,
    /// The number of the first step after the first that makes other allocations than most, from 0.
    first_unusual: Option<usize>,
    /// In order.
    steps: Vec<StepJson>,
}

/// One step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Step"))]
pub(super) struct StepJson {
    /// The number of its first event, and of the first behind it.
    first_event: usize,
    end_event: usize,
    peak_allocated_bytes: u64,
    /// The last event before that peak; null before the first event.
    peak_event: Option<usize>,
    /// Bytes of all blocks that were handed out in it, and how many.
    allocated_bytes: u64,
    allocations: u64,
    /// Allocated bytes after it minus those before.
    kept_bytes: i64,
    /// Most steps make the same allocations.
    is_usual: bool,
}

impl StepsJson {
    /// Nothing where no steps are known.
    pub(super) fn of(steps: &Steps) -> Option<Self> {
        let told_by = match steps.told_by {
            StepsFrom::Annotations => "annotations",
            StepsFrom::Optimizer => "optimizer",
            StepsFrom::Rhythm => "rhythm",
        };
        let each = steps.steps.iter().map(|s| StepJson {
            first_event: s.from.index(),
            end_event: s.to.index(),
            peak_allocated_bytes: s.peak,
            peak_event: s.peak_moment.event(),
            allocated_bytes: s.allocated,
            allocations: s.allocations,
            kept_bytes: s.kept,
            is_usual: s.is_usual,
        });
        let each: Vec<StepJson> = each.collect();
        (!each.is_empty()).then_some(Self { told_by, first_unusual: steps.first_unusual(), steps: each })
    }
}
