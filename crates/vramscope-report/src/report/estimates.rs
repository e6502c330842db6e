//! The section about estimates: the peak that a recorded program would have with a change.

use serde::Serialize;
use vramscope_analysis::{
    Estimate, EstimatedChange, Estimates, Mark, MarkedAllocations, NoEstimate, ProgramChange, Summary,
    Unrecorded,
};
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::Category;

use crate::fit::fit;
use crate::json::stacks::{Builder, FrameJson};
use crate::names::Names;
use crate::text::lines::BOLD;
use crate::text::page::Page;

/// The peak with changes to the program, computed from the recorded allocations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Estimates"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportEstimates"))]
pub(crate) struct EstimatesJson {
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
pub(crate) struct EstimateJson {
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
pub(crate) struct EstimateErrorJson {
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
pub(crate) struct BlockCallsJson {
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
pub(crate) struct NoEstimateJson {
    change: &'static str,
    name: &'static str,
    reason: &'static str,
}

impl Builder<'_> {
    pub(crate) fn estimates(&self, estimates: &Estimates) -> EstimatesJson {
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

impl Page<'_> {
    pub(crate) fn estimates(&mut self, s: &Summary) {
        let Some(estimates) = &s.estimates else { return };
        match estimates.estimates.len() {
            0 => self.heading("No estimated change lowers the peak"),
            several => {
                self.heading(&format!("Estimates: {} lower the peak", counted(several as u64, "change")));
            }
        }
        for text in basis(estimates) {
            self.words(2, &text);
        }
        for estimate in estimates.estimates.iter().take(self.options.top) {
            let name = fit(&name(&self.names, estimate), self.options.width.saturating_sub(16));
            self.line(format!("  {:>11}  {BOLD}{name}{BOLD:#}", bytes(estimate.peak)));
            self.words(15, &told(estimates, estimate));
            // Lines to paste are not cut.
            let lines = if estimates.budget.is_some() { lines(&self.names, estimate) } else { Vec::new() };
            for line in lines {
                self.line(format!("                 {line}"));
            }
        }
        let more = estimates.estimates.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
        for text in left_out(estimates) {
            self.words(2, &format!("No estimate for {text}"));
        }
        if let Some(first) = estimates.estimates.first() {
            self.words(2, "A run of the changed program on a phantom GPU verifies an estimate:");
            self.line(format!("    {}", verify(first.change, estimates.budget)));
        }
    }
}

/// Whether a program with a change keeps its budget, as far as the measured errors allow a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimatedFit {
    /// It does, even if the estimate is as much too low as the worst measured one.
    Fits,
    /// It depends on the error of the estimate, or on memory that the recording lacks because a request failed.
    MayFit,
    /// It does not, even if the estimate is as much too high as the worst measured one.
    DoesNotFit,
}

impl EstimatedFit {
    /// Compares an estimate with the budget; `None` without one.
    #[must_use]
    pub fn of(estimates: &Estimates, estimate: &Estimate) -> Option<Self> {
        let available = estimates.available? as f64;
        let error = estimate.change.error();
        let peak = estimate.peak as f64;
        let with = |error: f64| peak / (1.0 + error / 100.0);
        Some(if with(error.lowest.min(0.0)) <= available && estimates.unrecorded.is_none() {
            Self::Fits
        } else if with(error.highest.max(0.0)) <= available {
            Self::MayFit
        } else {
            Self::DoesNotFit
        })
    }

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::MayFit => "may_fit",
            Self::DoesNotFit => "does_not_fit",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::MayFit => "may fit",
            Self::DoesNotFit => "does not fit",
        }
    }
}

/// The name of a change.
#[must_use]
pub fn change(change: EstimatedChange) -> &'static str {
    match change {
        EstimatedChange::GradientsToNone => "gradients set to None after each step",
        EstimatedChange::FusedOptimizer => "fused optimizer",
        EstimatedChange::OptimizerWithoutForeach => "optimizer with foreach=False",
        EstimatedChange::AutocastBfloat16 => "autocast to bfloat16",
        EstimatedChange::ActivationCheckpointing => "activation checkpointing",
        EstimatedChange::GradientAccumulation => "gradient accumulation over 2 half batches",
        EstimatedChange::OptimizerInBackward => "optimizer in the backward pass",
        EstimatedChange::Adam8bit => "8-bit Adam",
        EstimatedChange::SaveOnCpu => "saved tensors in host memory",
        EstimatedChange::SmallerBatch => "half of the batch",
    }
}

/// The name of an estimated change, with the checkpointed modules.
#[must_use]
pub fn name(names: &Names<'_>, estimate: &Estimate) -> String {
    let mut text = change(estimate.change).to_owned();
    if !estimate.blocks.is_empty() {
        let blocks = estimate.blocks.iter().map(|blocks| {
            let module = counted(blocks.calls as u64, "module");
            match &blocks.container {
                Some(path) => format!("{module} in {path}"),
                None => format!("{module} called at {}", names.frame(blocks.caller)),
            }
        });
        text += &format!(", {}", blocks.collect::<Vec<_>>().join(", "));
    }
    text
}

/// The price of a change.
#[must_use]
pub fn cost(change: EstimatedChange) -> &'static str {
    match change {
        EstimatedChange::GradientsToNone | EstimatedChange::FusedOptimizer => "none",
        EstimatedChange::OptimizerWithoutForeach => "a slower optimizer step",
        EstimatedChange::AutocastBfloat16 => "lower precision",
        EstimatedChange::ActivationCheckpointing => "the forward pass of these modules runs again",
        EstimatedChange::GradientAccumulation => "2 smaller batches per step",
        EstimatedChange::OptimizerInBackward => "no clipping by the norm of all gradients, no accumulation",
        EstimatedChange::Adam8bit => "optimizer states of 8 bits",
        EstimatedChange::SaveOnCpu => "copies over PCIe, and host memory",
        EstimatedChange::SmallerBatch => "half of the samples per step",
    }
}

/// An assumption that the recording does not show, in a clause.
#[must_use]
pub fn assumption(change: EstimatedChange) -> Option<&'static str> {
    match change {
        EstimatedChange::AutocastBfloat16 => Some("assumes that the program computes in float32"),
        EstimatedChange::Adam8bit => Some("assumes optimizer states of float32"),
        EstimatedChange::GradientAccumulation | EstimatedChange::SmallerBatch => {
            Some("assumes a batch of several samples, with which activations grow")
        }
        _ => None,
    }
}

/// The lines that make a change.
#[must_use]
pub fn lines(names: &Names<'_>, estimate: &Estimate) -> Vec<String> {
    let lines: &[&str] = match estimate.change {
        EstimatedChange::GradientsToNone => {
            &["optimizer.step()", "optimizer.zero_grad(set_to_none=True)  # right after the step"]
        }
        EstimatedChange::FusedOptimizer => &["optimizer = ...(..., fused=True)  # the same optimizer"],
        EstimatedChange::OptimizerWithoutForeach => {
            &["optimizer = ...(..., foreach=False)  # the same optimizer"]
        }
        EstimatedChange::AutocastBfloat16 => {
            &["model.forward = torch.autocast(\"cuda\", dtype=torch.bfloat16)(model.forward)"]
        }
        EstimatedChange::ActivationCheckpointing => return checkpoint(names, estimate),
        EstimatedChange::GradientAccumulation => &[
            "if (batch_number + 1) % 2 == 0:  # and divide the loss by 2",
            "    optimizer.step()",
            "    optimizer.zero_grad()",
        ],
        EstimatedChange::OptimizerInBackward => &[
            "optimizers = {p: torch.optim.AdamW([p], ...) for p in model.parameters()}",
            "def update(p):",
            "    optimizers[p].step()",
            "    optimizers[p].zero_grad()",
            "for p in model.parameters():  # and remove optimizer.step()",
            "    p.register_post_accumulate_grad_hook(update)",
        ],
        EstimatedChange::Adam8bit => &["optimizer = bitsandbytes.optim.AdamW8bit(...)"],
        EstimatedChange::SaveOnCpu => {
            &["with torch.autograd.graph.save_on_cpu(pin_memory=True):", "    output = model(...)"]
        }
        EstimatedChange::SmallerBatch => &[],
    };
    lines.iter().map(|&line| line.to_owned()).collect()
}

fn checkpoint(names: &Names<'_>, estimate: &Estimate) -> Vec<String> {
    let mut all =
        vec!["import functools".to_owned(), "from torch.utils.checkpoint import checkpoint".to_owned()];
    for blocks in &estimate.blocks {
        all.push(match &blocks.container {
            Some(path) => format!("for block in model.get_submodule(\"{path}\"):"),
            None => format!("for block in ...:  # the modules called at {}", names.frame(blocks.caller)),
        });
        all.push(
            "    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)"
                .to_owned(),
        );
    }
    all
}

/// The command that runs the program with a change on a phantom GPU. `budget` is in bytes.
#[must_use]
pub fn verify(change: EstimatedChange, budget: Option<u64>) -> String {
    let budget = budget.map_or(String::new(), |budget| format!("--budget {budget} "));
    match change {
        EstimatedChange::GradientsToNone => {
            "vramscope phantom run -- COMMAND  # of the changed program".to_owned()
        }
        EstimatedChange::SmallerBatch => {
            format!("vramscope fit {budget}--only allocator_conf --vary batch=LOW..HIGH -- COMMAND {{batch}}")
        }
        EstimatedChange::GradientAccumulation => {
            format!(
                "vramscope fit {budget}--only {} --vary batch=LOW..HIGH -- COMMAND {{batch}}",
                change.name()
            )
        }
        _ => format!("vramscope fit {budget}--only {} -- COMMAND", change.name()),
    }
}

/// The command that runs the program with changes to parts of it on a phantom GPU. `fit` makes one change to the whole program.
#[must_use]
pub fn verify_marks(marks: &[Mark]) -> String {
    let whole = |mark: &Mark| match (&mark.of, mark.change) {
        (MarkedAllocations::Batch, ProgramChange::Scale(_)) => Some(EstimatedChange::SmallerBatch),
        (MarkedAllocations::Category(Category::Activation), change) => match change {
            ProgramChange::Checkpoint => Some(EstimatedChange::ActivationCheckpointing),
            ProgramChange::Offload => Some(EstimatedChange::SaveOnCpu),
            ProgramChange::Scale(0.5) => Some(EstimatedChange::AutocastBfloat16),
            _ => None,
        },
        (MarkedAllocations::Category(Category::OptimizerState), ProgramChange::Scale(0.25)) => {
            Some(EstimatedChange::Adam8bit)
        }
        _ => None,
    };
    let change = match marks {
        [mark] => whole(mark),
        _ => None,
    };
    change.map_or_else(
        || "vramscope phantom run -- COMMAND  # of the changed program".to_owned(),
        |change| verify(change, None),
    )
}

/// Why a mark changes no allocation, in a sentence.
#[must_use]
pub fn unchanged_mark(mark: &Mark) -> String {
    let why = match mark.change {
        ProgramChange::Free => {
            "no such allocation is live after its last use, or the recording has no accesses"
        }
        ProgramChange::Checkpoint => "no called module keeps several such activations for the backward pass",
        ProgramChange::Offload => "it has neither activations nor optimizer states",
        ProgramChange::Scale(_) => "the recording has no such allocation",
    };
    format!("{mark} changes nothing: {why}.")
}

/// Why a change has no estimate, in a clause.
#[must_use]
pub fn reason(reason: NoEstimate) -> &'static str {
    match reason {
        NoEstimate::NoTraining => "the recording does not show training",
        NoEstimate::NoStacks => "the recording has no stacks",
        NoEstimate::NoOptimizer => "no stack shows an optimizer of PyTorch",
        NoEstimate::NoFusedForm => "the optimizer has no fused form",
        NoEstimate::NoForeach => "the optimizer does not use foreach",
        NoEstimate::NoAdam => "no states of Adam were recorded",
        NoEstimate::NoGradients => "no gradients were recorded",
        NoEstimate::NoActivations => "no activations were recorded",
        NoEstimate::AlreadyRecomputes => "the program recomputes activations already",
        NoEstimate::NoBlocks => "no line of the forward pass calls several modules that save activations",
        NoEstimate::AlreadyAutocast => "autocast is on",
        NoEstimate::SavesNothing => "it does not lower the peak",
        NoEstimate::OneLargeStep => {
            "one step needs far more than the others, so that its input, not the batch, decides"
        }
    }
}

/// The basis of the estimates, and what they lack: one sentence each.
#[must_use]
pub fn basis(estimates: &Estimates) -> Vec<String> {
    let mut told = vec![format!(
        "Computed from the recorded allocations, whose peak is {}. Free bytes in PyTorch's cache come on top.",
        bytes(estimates.peak)
    )];
    if let Some(available) = estimates.available {
        let context = match estimates.overhead {
            0 => "; the CUDA context, some hundred MiB, is not subtracted".to_owned(),
            overhead => format!(", without the {} outside the allocator", bytes(overhead)),
        };
        told.push(format!("{} are available{context}.", bytes(available)));
    }
    match estimates.unrecorded {
        Some(Unrecorded::BeforeGradients) => told.push(
            "The request failed before the first backward pass ended: gradients and optimizer states come on top."
                .to_owned(),
        ),
        Some(Unrecorded::BeforeOptimizer) => told.push(
            "The request failed before the first optimizer step ended: further optimizer states come on top."
                .to_owned(),
        ),
        None => {}
    }
    told
}

/// The distance to the budget, the measured error and the cost of a change, in a clause.
#[must_use]
pub fn told(estimates: &Estimates, estimate: &Estimate) -> String {
    let error = estimate.change.error();
    let side =
        |left: i64| format!("{} {}", bytes(left.unsigned_abs()), if left < 0 { "missing" } else { "left" });
    let fit = EstimatedFit::of(estimates, estimate).zip(estimates.left(estimate)).map(|(fit, left)| {
        if fit == EstimatedFit::MayFit && left < 0 {
            // The peak with the largest error by which estimates were too high.
            let peak = (estimate.peak as f64 / (1.0 + error.highest.max(0.0) / 100.0)) as u64;
            let best = estimates.left(&Estimate { peak, ..estimate.clone() }).unwrap_or(left);
            return format!("may fit: {}, or {} with the largest error; ", side(left), side(best));
        }
        format!("{}, {}; ", fit.words(), side(left))
    });
    let assumption = assumption(estimate.change).map_or(String::new(), |text| format!("; {text}"));
    format!(
        "{}error {:+.1} to {:+.1} % in {}; cost: {}{}",
        fit.unwrap_or_default(),
        error.lowest,
        error.highest,
        counted(u64::from(error.cases), "measured program"),
        cost(estimate.change),
        assumption,
    )
}

/// The changes without an estimate that the recording does not have the data for, in a sentence for each reason.
#[must_use]
pub fn left_out(estimates: &Estimates) -> Vec<String> {
    let mut reasons: Vec<(NoEstimate, Vec<&str>)> = Vec::new();
    for &(of, why) in &estimates.left_out {
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, changes)) => changes.push(change(of)),
            None => reasons.push((why, vec![change(of)])),
        }
    }
    reasons.iter().map(|(why, changes)| format!("{}: {}.", changes.join(", "), reason(*why))).collect()
}
