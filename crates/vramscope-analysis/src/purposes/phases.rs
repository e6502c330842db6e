//! What the program was doing, from allocation to allocation: a run of phases.

use crate::history::{Allocation, History, Origin};
use crate::moment::Moment;
use crate::purposes::signs::{Runs, Signs};

/// What a program is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
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
    fn is_backward(self) -> bool {
        matches!(self, Self::Backward | Self::Recompute)
    }
}

/// A run of events of one phase, and what comes after it. Events are counted from 0; `u32::MAX` stands for one that never comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// Its first event.
    pub(super) from: u32,
    pub(super) phase: Phase,
    /// The first allocation behind what it is part of: a backward pass has several stretches, of anything else each is by itself.
    pub(super) end: u32,
    /// The last allocation of what it is part of.
    pub(super) last: u32,
    /// The first event of the next stretch that is no recomputation, for [`Phase::Recompute`].
    pub(super) next: u32,
    /// The first event of the next backward pass, and the first event behind it.
    pub(super) backward: (u32, u32),
    /// The first event of the forward pass after the next one.
    pub(super) second_forward: u32,
}

/// Allocations of one phase without others between them, by the events of the first and the last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) phase: Phase,
    pub(super) from: u32,
    pub(super) last: u32,
}

/// No such event.
pub(super) const NEVER: u32 = u32::MAX;

/// The phases of a device's recording, one after the other.
#[derive(Debug)]
pub(super) struct Phases {
    pub(super) stretches: Vec<Stretch>,
    /// Something in the recording tells what the program was doing.
    pub(super) are_known: bool,
}

impl Phases {
    /// Follows the stacks of all allocations.
    pub(super) fn of(history: &History, signs: &Signs) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        let mut phase = Phase::Between;
        let mut are_known = false;
        // The program's own code ran since the last module.
        let mut left_modules = false;
        for a in recorded(history) {
            let has_stack = a.stack.is_some_and(|s| !history.trace().stacks.get(s).is_empty());
            let next = match (signs.get(a.stack).runs, phase) {
                (Some(Runs::Forward), _) => Phase::Forward,
                (Some(Runs::Recompute), _) => Phase::Recompute,
                (Some(Runs::Backward), _) => Phase::Backward,
                (Some(Runs::Optimizer), _) => Phase::Optimizer,
                (Some(Runs::Setup), _) => Phase::Setup,
                // A loss is often worked out in the program's own code, after the modules.
                (None, Phase::Forward) if has_stack => Phase::Forward,
                (None, _) if has_stack => Phase::Between,
                // The thread of the backward pass has no frames of Python, and others that have none are rare.
                (None, Phase::Setup) => Phase::Setup,
                (None, Phase::Recompute | Phase::Backward | Phase::Forward | Phase::Between) => {
                    Phase::Backward
                }
                (None, Phase::Optimizer) => Phase::Optimizer,
            };
            let told = signs.get(a.stack).runs.is_some();
            are_known |= told;
            let is_another_pass = told && next == Phase::Forward && left_modules;
            left_modules = !told;
            match runs.last_mut() {
                Some(run) if run.phase == next && !is_another_pass => run.last = event(a),
                _ => runs.push(Run { phase: next, from: event(a), last: event(a) }),
            }
            phase = next;
        }
        Self { are_known, stretches: stretches(&runs) }
    }

    /// Tells each allocation that was recorded, in the order of their events, with the stretch in which it was made.
    pub(super) fn each<'h>(&self, history: &'h History, mut tell: impl FnMut(&'h Allocation, Stretch)) {
        let mut at = 0;
        for a in recorded(history) {
            while self.stretches.get(at + 1).is_some_and(|s| s.from <= event(a)) {
                at += 1;
            }
            if let Some(&stretch) = self.stretches.get(at) {
                tell(a, stretch);
            }
        }
    }
}

/// Looks from each run at those that follow.
fn stretches(runs: &[Run]) -> Vec<Stretch> {
    let mut stretches = Vec::with_capacity(runs.len());
    let mut backward = (NEVER, NEVER);
    // The first events of the next forward pass, and of the one after it.
    let mut forward = (NEVER, NEVER);
    // Of the backward pass that is open, seen from behind: its last allocation, and the first behind it.
    let mut open: Option<(u32, u32)> = None;
    let mut behind = NEVER;
    for &Run { phase, from, last } in runs.iter().rev() {
        let next = behind;
        let (last, end) =
            if phase.is_backward() { *open.get_or_insert((last, behind)) } else { (last, behind) };
        stretches.push(Stretch { from, phase, last, end, next, backward, second_forward: forward.1 });
        match phase {
            Phase::Backward | Phase::Recompute => backward = (from, end),
            // Code of the program may run within the backward pass, in hooks.
            Phase::Between => {}
            Phase::Setup | Phase::Forward | Phase::Optimizer => open = None,
        }
        if phase == Phase::Forward {
            forward = (from, forward.0);
        }
        behind = from;
    }
    stretches.reverse();
    stretches
}

/// The allocations that were recorded, in the order of their events.
fn recorded(history: &History) -> impl Iterator<Item = &Allocation> {
    history.allocations.iter().filter(|a| a.origin == Origin::Recorded)
}

/// The number of the event that made a recorded allocation.
pub(super) fn event(a: &Allocation) -> u32 {
    event_before(a.from)
}

/// The number of the event before a moment; [`NEVER`] where there is none.
pub(super) fn event_before(moment: Moment) -> u32 {
    match moment {
        Moment::NEVER => NEVER,
        moment => moment.event().and_then(|e| u32::try_from(e).ok()).unwrap_or(0),
    }
}
