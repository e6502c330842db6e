//! Estimates: the peak that a recorded training program would have with a change.
//!
//! A change ends lifetimes earlier, begins others again, or scales sizes. An estimate applies that to the recorded allocations and
//! computes the peak of allocated bytes again. No program runs. So an estimate has an [`EstimateError`], which was measured.
//!
//! - `program`: the recorded allocations with their phases, and the peak of a changed copy.
//! - `blocks`: modules that the forward pass calls one after the other at one line.
//! - `optimizer`, `activations`, `gradients`: the changes.
//! - `marks`: changes to a part of the program.
//! - `error`: the measured errors.

mod activations;
mod blocks;
mod error;
mod gradients;
mod marks;
mod optimizer;
mod program;

use std::sync::Arc;

use vramscope_trace::FrameId;

use crate::categories::{AllocationCategories, PassPhase};
use crate::history::History;
use crate::steps::Steps;
use vramscope_basics::Cancel;

pub use error::EstimateError;
pub use marks::{Mark, MarkedAllocations, MarkedProgram, ProgramChange, smallest_gpu_for};
use program::Program;

/// A change whose effect can be estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EstimatedChange {
    /// Gradients are freed after each optimizer step, instead of zeroed.
    GradientsToNone,
    /// `fused=True` for the optimizer.
    FusedOptimizer,
    /// `foreach=False` for the optimizer.
    OptimizerWithoutForeach,
    /// Autocast of the forward pass to bfloat16.
    AutocastBfloat16,
    /// Activation checkpointing of all blocks.
    ActivationCheckpointing,
    /// Gradient accumulation over two half batches.
    GradientAccumulation,
    /// An optimizer for each parameter, which runs in the backward pass and frees the gradient.
    OptimizerInBackward,
    /// Adam with states of 8 bits.
    Adam8bit,
    /// Tensors that are saved for the backward pass are kept in host memory.
    SaveOnCpu,
    /// Half of the batch.
    SmallerBatch,
}

impl EstimatedChange {
    /// All changes, from cheap to expensive.
    pub const ALL: [Self; 10] = [
        Self::GradientsToNone,
        Self::FusedOptimizer,
        Self::OptimizerWithoutForeach,
        Self::AutocastBfloat16,
        Self::ActivationCheckpointing,
        Self::GradientAccumulation,
        Self::OptimizerInBackward,
        Self::Adam8bit,
        Self::SaveOnCpu,
        Self::SmallerBatch,
    ];

    /// The name in JSON. `vramscope fit --only` has the same names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GradientsToNone => "gradients_to_none",
            Self::FusedOptimizer => "fused_optimizer",
            Self::OptimizerWithoutForeach => "optimizer_without_foreach",
            Self::AutocastBfloat16 => "autocast_bfloat16",
            Self::ActivationCheckpointing => "activation_checkpointing",
            Self::GradientAccumulation => "gradient_accumulation",
            Self::OptimizerInBackward => "optimizer_in_backward",
            Self::Adam8bit => "adam_8bit",
            Self::SaveOnCpu => "save_on_cpu",
            Self::SmallerBatch => "smaller_batch",
        }
    }

    /// The measured error of estimates of this change.
    #[must_use]
    pub fn error(self) -> EstimateError {
        error::of(self)
    }
}

/// Modules that one line calls one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockCalls {
    /// The frame that calls them.
    pub caller: FrameId,
    /// The path of the module that contains them, if the recording has modules.
    pub container: Option<Arc<str>>,
    /// Number of calls in a forward pass.
    pub calls: usize,
}

/// The estimated effect of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// The change.
    pub change: EstimatedChange,
    /// The estimated peak of allocated bytes.
    pub peak: u64,
    /// The checkpointed modules. Empty for other changes.
    pub blocks: Vec<BlockCalls>,
}

/// Why a change has no estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEstimate {
    /// The recording does not show training: no backward pass, and no forward pass that saves activations.
    NoTraining,
    /// The recording has no stacks.
    NoStacks,
    /// No stack shows an optimizer of PyTorch.
    NoOptimizer,
    /// The optimizer has no fused form, or is fused already.
    NoFusedForm,
    /// The optimizer does not use `foreach`.
    NoForeach,
    /// The optimizer is not Adam, or its states were not recorded.
    NoAdam,
    /// No gradients were recorded.
    NoGradients,
    /// No activations were recorded.
    NoActivations,
    /// The program recomputes activations already.
    AlreadyRecomputes,
    /// No line calls several modules whose activations the backward pass needs.
    NoBlocks,
    /// C++ frames show that autocast is on.
    AlreadyAutocast,
    /// The estimated peak is not lower.
    SavesNothing,
    /// One step needs far more than the others, with the same batch.
    OneLargeStep,
}

/// The part of the program that the recording lacks, because a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrecorded {
    /// No backward pass ended: gradients and optimizer states are missing.
    BeforeGradients,
    /// No optimizer step ended: optimizer states may be missing.
    BeforeOptimizer,
}

impl Unrecorded {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeGradients => "gradients",
            Self::BeforeOptimizer => "optimizer_states",
        }
    }
}

/// The estimates for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimates {
    /// The recorded peak of allocated bytes. If a request failed, it counts.
    pub peak: u64,
    /// The requested budget: bytes that the program may use on the device, with its CUDA context.
    pub budget: Option<u64>,
    /// The bytes that the program may use, without `overhead`; `None` if unknown.
    pub available: Option<u64>,
    /// Bytes of the device that the allocator cannot use, for contexts and other processes; 0 if unknown.
    pub overhead: u64,
    /// What the recording lacks.
    pub unrecorded: Option<Unrecorded>,
    /// The estimates: those that suffice first, then from cheap to expensive.
    pub estimates: Vec<Estimate>,
    /// The changes without an estimate.
    pub left_out: Vec<(EstimatedChange, NoEstimate)>,
}

impl Estimates {
    /// Estimates all changes. `budget` is the number of bytes that the program may use on the device, with its CUDA context; `None` for the
    /// device's size, if a request failed. Returns `None` without a budget if the recording does not show training.
    pub(crate) fn of(
        history: &History,
        categories: &AllocationCategories,
        steps: &Steps,
        budget: Option<u64>,
        cancel: &Cancel,
    ) -> Option<Self> {
        let Some(program) = Program::of(history, categories) else {
            return budget.map(|budget| Self::without_training(history, budget));
        };
        let capacity = program.capacity();
        let overhead = capacity.map_or(0, |capacity| capacity.overhead);
        let total = budget.or(capacity.map(|capacity| capacity.total));
        let mut this = Self {
            peak: program.peak,
            budget,
            available: total.map(|total| total.saturating_sub(overhead)),
            overhead,
            unrecorded: program.unrecorded(),
            estimates: Vec::new(),
            left_out: Vec::new(),
        };
        for change in EstimatedChange::ALL {
            if cancel.is_cancelled() {
                return None;
            }
            let of_batch =
                matches!(change, EstimatedChange::SmallerBatch | EstimatedChange::GradientAccumulation);
            match estimate(&program, change) {
                Ok(_) if of_batch && steps.above_usual(program.peak).is_some() => {
                    this.left_out.push((change, NoEstimate::OneLargeStep));
                }
                Ok(estimate) if estimate.peak < program.peak => this.estimates.push(estimate),
                Ok(_) => this.left_out.push((change, NoEstimate::SavesNothing)),
                Err(reason) => this.left_out.push((change, reason)),
            }
        }
        let available = this.available;
        this.estimates.sort_by_key(|estimate| available.is_some_and(|available| estimate.peak > available));
        Some(this)
    }

    fn without_training(history: &History, budget: u64) -> Self {
        // Without stacks, training is recognized only if it repeats itself.
        let has_stacks = history.recorded().any(|a| history.stack_of(a).is_some());
        let reason = if has_stacks { NoEstimate::NoTraining } else { NoEstimate::NoStacks };
        Self {
            peak: history.peaks().allocated.bytes,
            budget: Some(budget),
            available: Some(budget),
            overhead: 0,
            unrecorded: None,
            estimates: Vec::new(),
            left_out: EstimatedChange::ALL.map(|change| (change, reason)).to_vec(),
        }
    }

    /// The bytes that are left of the budget with a change; negative if they are missing. `None` without a budget.
    #[must_use]
    pub fn left(&self, estimate: &Estimate) -> Option<i64> {
        let left = i128::from(self.available?) - i128::from(estimate.peak);
        Some(left.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

fn estimate(program: &Program<'_>, change: EstimatedChange) -> Result<Estimate, NoEstimate> {
    let mut blocks = Vec::new();
    let peak = match change {
        EstimatedChange::GradientsToNone => gradients::to_none(program),
        EstimatedChange::FusedOptimizer => optimizer::fused(program),
        EstimatedChange::OptimizerWithoutForeach => optimizer::without_foreach(program),
        EstimatedChange::AutocastBfloat16 => activations::autocast(program),
        EstimatedChange::ActivationCheckpointing => {
            let (peak, calls) = blocks::checkpointed(program)?;
            blocks = calls;
            Ok(peak)
        }
        EstimatedChange::GradientAccumulation => gradients::accumulated(program),
        EstimatedChange::OptimizerInBackward => gradients::in_backward(program),
        EstimatedChange::Adam8bit => optimizer::adam_8bit(program),
        EstimatedChange::SaveOnCpu => activations::offloaded(program),
        EstimatedChange::SmallerBatch => activations::half_batch(program),
    }?;
    Ok(Estimate { change, peak, blocks })
}

/// Whether allocations of this phase depend on the batch, if nothing else is known.
fn is_of_batch(phase: PassPhase) -> bool {
    matches!(phase, PassPhase::Between | PassPhase::Forward | PassPhase::Backward | PassPhase::Recompute)
}
