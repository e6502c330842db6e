//! What the program was doing, from allocation to allocation: a run of phases.

mod rhythm;
mod run;
mod stacks;

use crate::history::{Allocation, History};
use crate::purposes::signs::Signs;
use crate::purposes::turns::Turns;

pub(super) use run::{NEVER, Phase, event, event_before};

use run::Run;

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
    /// The first event of the next stretch.
    pub(super) next: u32,
    /// The first event of the next backward pass, and the first event behind it.
    pub(super) backward: (u32, u32),
    /// The first event of the forward pass after the next one.
    pub(super) second_forward: u32,
}

/// The phases of a device's recording, one after the other.
#[derive(Debug)]
pub(super) struct Phases {
    pub(super) stretches: Vec<Stretch>,
    /// What tells them; `None` where nothing does, and all is one stretch.
    pub(super) told_by: Option<ToldBy>,
}

/// What tells the phases of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToldBy {
    /// Frames in stacks.
    Stacks,
    /// Without stacks: what repeats, and when memory rises and falls in it.
    Rhythm,
}

impl Phases {
    /// As stacks tell them; where there is no stack at all, as the rhythm does.
    pub(super) fn of(history: &History, signs: &Signs) -> Self {
        let (told_by, mut runs) = if history.recorded().any(|a| history.stack_of(a).is_some()) {
            (ToldBy::Stacks, stacks::runs(history, signs))
        } else {
            (ToldBy::Rhythm, rhythm::runs(history))
        };
        let told_by = (!runs.is_empty()).then_some(told_by);
        if runs.is_empty() {
            runs.push(Run { phase: Phase::Between, from: 0, last: NEVER });
        }
        Self { stretches: stretches(&runs), told_by }
    }

    /// How often the program went round.
    pub(super) fn turns(&self, history: &History) -> Turns {
        if self.told_by != Some(ToldBy::Stacks) {
            return Turns::default();
        }
        let passes = self.stretches.iter().filter(|s| s.phase == Phase::Forward).count();
        let first = self.stretches.iter().find(|s| s.phase != Phase::Setup);
        let mut turns = Turns {
            forward_passes: u32::try_from(passes).ok().filter(|&passes| passes > 0),
            steps: first.map(|s| s.from as usize).into_iter().collect(),
            one_optimizer: true,
        };
        let mut stepped = false;
        let (mut first_step, mut stack) = (true, None);
        for stretch in &self.stretches {
            match stretch.phase {
                Phase::Optimizer if !stepped => {
                    stepped = true;
                    // Its first step makes what it keeps, which others do not.
                    let here = history.device().events.get(stretch.from as usize).stack;
                    if !std::mem::take(&mut first_step) {
                        turns.one_optimizer &= *stack.get_or_insert(here) == here;
                    }
                }
                Phase::Optimizer => {}
                // The next step begins with its batch, or with its forward pass.
                _ if std::mem::take(&mut stepped) => turns.steps.push(stretch.from as usize),
                _ => {}
            }
        }
        turns
    }

    /// Tells each allocation that was recorded, in the order of their events, with the stretch in which it was made.
    pub(super) fn each<'h>(&self, history: &'h History, mut tell: impl FnMut(&'h Allocation, Stretch)) {
        let mut at = 0;
        for a in history.recorded() {
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
