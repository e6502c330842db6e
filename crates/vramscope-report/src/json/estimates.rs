//! JSON of estimates: the peak that a recorded program would have with a change.

use serde::Serialize;
use vramscope_analysis::{Estimate, Estimates};

use super::stacks::{Builder, FrameJson};
use crate::estimates::{EstimatedFit, assumption, basis, change, cost, lines, name, reason, told, verify};

/// The peak with changes to the program, computed from the recorded allocations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Estimates"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportEstimates"))]
pub(super) struct EstimatesJson {
    /// The recorded peak of allocated bytes. A failed request counts.
    recorded_peak_bytes: u64,
    /// The bytes that the allocator may use; null without a budget.
    available_bytes: Option<u64>,
    /// Bytes of the device that the allocator cannot use; 0 if unknown.
    overhead_bytes: u64,
    /// The part of a step that a failed request cut off: `gradients` or `optimizer_states`; null if none.
    unrecorded: Option<&'static str>,
    /// The basis of the estimates and its limits, in sentences.
    basis: Vec<String>,
    /// First those that suffice, then from cheap to expensive.
    changes: Vec<EstimateJson>,
    left_out: Vec<NoEstimateJson>,
}

/// The estimate of a change.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Estimate"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportEstimate"))]
pub(super) struct EstimateJson {
    /// The name of the change, as in `vramscope fit --only`.
    change: &'static str,
    name: String,
    /// Distance to the budget, error and cost, in a clause.
    text: String,
    peak_allocated_bytes: u64,
    /// Negative if bytes are missing; null without a budget.
    left_bytes: Option<i64>,
    /// `fits`, `may_fit` or `does_not_fit`, with the error in mind; null without a budget.
    verdict: Option<&'static str>,
    error: EstimateErrorJson,
    cost: &'static str,
    assumption: Option<&'static str>,
    lines: Vec<String>,
    /// The command that runs the changed program.
    verify: String,
    /// The checkpointed modules.
    blocks: Vec<BlockCallsJson>,
}

/// The errors of estimates of this change in measured programs, in percent of the peak of the changed program.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "EstimateError"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportEstimateError"))]
pub(super) struct EstimateErrorJson {
    /// Number of programs.
    cases: u32,
    mean_absolute_percent: f64,
    lowest_percent: f64,
    highest_percent: f64,
    /// Estimates that were too low by more than 1 %.
    too_low: u32,
}

/// Modules that one line calls one after the other.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BlockCalls"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportBlockCalls"))]
pub(super) struct BlockCallsJson {
    caller: FrameJson,
    /// The path of the module that contains them; null if the recording has no modules.
    container: Option<String>,
    /// Calls in a forward pass.
    calls: usize,
}

/// A change without an estimate.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NoEstimate"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportNoEstimate"))]
pub(super) struct NoEstimateJson {
    change: &'static str,
    name: &'static str,
    reason: &'static str,
}

impl Builder<'_> {
    pub(super) fn estimates(&self, estimates: &Estimates) -> EstimatesJson {
        let left_out = estimates.left_out.iter().map(|&(of, why)| NoEstimateJson {
            change: of.name(),
            name: change(of),
            reason: reason(why),
        });
        EstimatesJson {
            recorded_peak_bytes: estimates.peak,
            available_bytes: estimates.available,
            overhead_bytes: estimates.overhead,
            unrecorded: estimates.unrecorded.map(|part| part.name()),
            basis: basis(estimates),
            changes: estimates.estimates.iter().map(|each| self.estimate(estimates, each)).collect(),
            left_out: left_out.collect(),
        }
    }

    fn estimate(&self, of: &Estimates, estimate: &Estimate) -> EstimateJson {
        let error = estimate.change.error();
        EstimateJson {
            change: estimate.change.name(),
            name: name(&self.names, estimate),
            text: told(of, estimate),
            peak_allocated_bytes: estimate.peak,
            left_bytes: of.left(estimate),
            verdict: EstimatedFit::of(of, estimate).map(EstimatedFit::name),
            error: EstimateErrorJson {
                cases: error.cases,
                mean_absolute_percent: error.mean,
                lowest_percent: error.lowest,
                highest_percent: error.highest,
                too_low: error.too_low,
            },
            cost: cost(estimate.change),
            assumption: assumption(estimate.change),
            lines: lines(&self.names, estimate),
            verify: verify(estimate.change, of.budget),
            blocks: estimate
                .blocks
                .iter()
                .map(|blocks| BlockCallsJson {
                    caller: self.frame(blocks.caller),
                    container: blocks.container.as_deref().map(str::to_owned),
                    calls: blocks.calls,
                })
                .collect(),
        }
    }
}
