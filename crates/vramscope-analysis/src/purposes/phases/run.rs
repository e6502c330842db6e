//! Allocations that were made one after the other while the program did one thing.

use crate::history::Allocation;
use crate::moment::Moment;

/// What a program is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::purposes) enum Phase {
    /// It builds, moves or fills its model.
    Setup,
    /// Its own code runs, outside of modules: it loads a batch, or works on losses and gradients.
    Between,
    /// The forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// A forward pass inside of the backward pass makes again what a checkpoint threw away.
    Recompute,
    /// The optimizer's step.
    Optimizer,
}

impl Phase {
    pub(super) fn is_backward(self) -> bool {
        matches!(self, Self::Backward | Self::Recompute)
    }
}

/// Allocations of one phase without others between them, by the events of the first and the last.
#[derive(Debug, Clone, Copy)]
pub(in crate::purposes) struct Run {
    pub(in crate::purposes) phase: Phase,
    pub(in crate::purposes) from: u32,
    pub(in crate::purposes) last: u32,
    /// It is part of the backward pass before it: a hook runs.
    pub(in crate::purposes) is_hook: bool,
}

/// No such event.
pub(in crate::purposes) const NEVER: u32 = u32::MAX;

/// The number of the event that made a recorded allocation.
pub(in crate::purposes) fn event(a: &Allocation) -> u32 {
    event_before(a.from)
}

/// The number of the event before a moment: 0 for the first moment, too, and [`NEVER`] for the one that never comes.
pub(in crate::purposes) fn event_before(moment: Moment) -> u32 {
    match moment {
        Moment::NEVER => NEVER,
        moment => moment.event().and_then(|e| u32::try_from(e).ok()).unwrap_or(0),
    }
}
