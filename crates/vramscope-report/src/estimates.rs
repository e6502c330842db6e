//! Sentences about estimates: the peak that a recorded program would have with a change.

use vramscope_analysis::{
    Estimate, EstimatedChange, Estimates, Mark, MarkedAllocations, NoEstimate, ProgramChange, Unrecorded,
};
use vramscope_trace::Category;

use crate::names::Names;
use vramscope_basics::units::{bytes, counted};

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
    let fit = EstimatedFit::of(estimates, estimate).zip(estimates.left(estimate)).map(|(fit, left)| {
        let side = if left < 0 { "missing" } else { "left" };
        format!("{}, {} {side}; ", fit.words(), bytes(left.unsigned_abs()))
    });
    let error = estimate.change.error();
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
