//! Runs: allocations made one after the other in one phase.

use crate::history::{Moment, RecordedAllocation};

/// What a program is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The program builds, moves or fills its model.
    Setup,
    /// The program's own code runs outside of modules: it loads a batch, or works on losses and gradients.
    Between,
    /// The forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// A repeated forward pass inside the backward pass, which recomputes the tensors that a checkpoint dropped.
    Recompute,
    /// The optimizer step.
    Optimizer,
}

impl Phase {
    pub(super) fn is_backward(self) -> bool {
        matches!(self, Self::Backward | Self::Recompute)
    }
}

/// Consecutive allocations in one phase, given by the events of the first and the last.
#[derive(Debug, Clone, Copy)]
pub(in crate::categories) struct Run {
    pub(in crate::categories) phase: Phase,
    pub(in crate::categories) from: u32,
    pub(in crate::categories) last: u32,
    /// Whether a hook made these; they then belong to the backward pass before them.
    pub(in crate::categories) is_hook: bool,
}

/// An event that never happens.
pub(in crate::categories) const NEVER: u32 = u32::MAX;

/// Returns the index of the event that made a recorded allocation.
pub(in crate::categories) fn event(a: &RecordedAllocation) -> u32 {
    event_before(a.from)
}

/// Returns the index of the event before a moment; also 0 for the first moment, and [`NEVER`] for [`Moment::NEVER`].
pub(in crate::categories) fn event_before(moment: Moment) -> u32 {
    match moment {
        Moment::NEVER => NEVER,
        moment => moment.event().and_then(|e| u32::try_from(e).ok()).unwrap_or(0),
    }
}

/// Sizes of PyTorch's cuBLAS workspace, in bytes: 8 x 4096 KiB on Hopper, 2 x 4096 KiB + 8 x 16 KiB on other GPUs
/// (`parseChosenWorkspaceSize`, `aten/src/ATen/cuda/CublasHandlePool.cpp`, PyTorch 2.11).
const WORKSPACES: [u64; 2] = [8 * 4096 * 1024, 2 * 4096 * 1024 + 8 * 16 * 1024];

/// Whether an allocation has the size of a cuBLAS workspace.
pub(in crate::categories) fn is_as_large_as_a_workspace(a: &RecordedAllocation) -> bool {
    WORKSPACES.contains(&a.requested)
}

/// Size of PyTorch's cuBLASLt workspace, in bytes: 1024 KiB (`_parseChosenWorkspaceSize`, `aten/src/ATen/cuda/CUDABlas.cpp`, PyTorch 2.11).
/// The first product allocates it after the cuBLAS workspace.
const LT_WORKSPACE: u64 = 1024 * 1024;

/// Whether an allocation has the size of a cuBLASLt workspace and follows one of cuBLAS.
pub(in crate::categories) fn is_lt_workspace(
    a: &RecordedAllocation,
    before: Option<&RecordedAllocation>,
) -> bool {
    before.is_some_and(is_as_large_as_a_workspace) && a.requested == LT_WORKSPACE
}
