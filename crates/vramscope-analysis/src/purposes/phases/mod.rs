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
    /// The next stretch is a forward pass.
    pub(super) another_forward_follows: bool,
    /// The next stretch is a step of the optimizer.
    pub(super) optimizer_follows: bool,
    /// A backward pass lies before it.
    pub(super) after_backward: bool,
}

/// When something was given back, as backward passes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// While one ran.
    InBackward,
    /// After its last allocation, and before any other.
    AtItsEnd,
    /// At another time, or never.
    Elsewhere,
}

/// The phases of a device's recording, one after the other.
#[derive(Debug)]
pub(super) struct Phases {
    pub(super) stretches: Vec<Stretch>,
    /// Of each backward pass the first event, the last allocation, and the first event behind it; in order.
    passes: Vec<(u32, u32, u32)>,
    /// The event of the last allocation of the recording.
    last_allocation: u32,
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
            runs.push(Run { phase: Phase::Between, from: 0, last: NEVER, is_hook: false });
        }
        let stretches = stretches(&runs);
        let mut passes: Vec<(u32, u32, u32)> = Vec::new();
        for s in stretches.iter().filter(|s| s.phase.is_backward()) {
            if passes.last().is_none_or(|&(.., end)| end != s.end) {
                passes.push((s.from, s.last, s.end));
            }
        }
        let last_allocation = history.recorded().last().map_or(NEVER, event);
        Self { stretches, passes, last_allocation, told_by }
    }

    /// How many backward passes there are.
    pub(super) fn backward_passes(&self) -> usize {
        self.passes.len()
    }

    /// When what was given back at event `freed` was given back, as backward passes go.
    pub(super) fn given(&self, freed: u32) -> Given {
        let before = self.passes.partition_point(|&(from, ..)| from <= freed);
        match before.checked_sub(1).and_then(|last| self.passes.get(last)) {
            Some(&(_, last, _)) if freed < last => Given::InBackward,
            Some(&(.., end)) if freed < end && end != NEVER => Given::AtItsEnd,
            _ => Given::Elsewhere,
        }
    }

    /// Whether the recording ends before it could tell when `a`, which was made in `stretch`, was given back. Behind its last allocation
    /// nothing tells when a pass ends.
    pub(super) fn is_open(&self, a: &Allocation, stretch: Stretch) -> bool {
        let freed = event_before(a.freed);
        match stretch.phase {
            Phase::Forward | Phase::Between => stretch.backward.1 == NEVER && freed > self.last_allocation,
            _ => stretch.end == NEVER && freed == NEVER,
        }
    }

    /// How often the program went round.
    pub(super) fn turns(&self, history: &History) -> Turns {
        if self.told_by != Some(ToldBy::Stacks) {
            return Turns::default();
        }
        let count = |phase| self.stretches.iter().filter(|s| s.phase == phase).count();
        let rounds = match count(Phase::Forward) {
            0 => self.backward_passes().max(count(Phase::Optimizer)),
            forward => forward,
        };
        let first = self.stretches.iter().find(|s| s.phase != Phase::Setup);
        let mut turns = Turns {
            most_rounds: u32::try_from(rounds).ok().filter(|&rounds| rounds > 0),
            steps: first.map(|s| s.from as usize).into_iter().collect(),
            one_optimizer: true,
            passes: Vec::new(),
        };
        let mut stepped = false;
        let (mut first_step, mut stack) = (true, None);
        for stretch in &self.stretches {
            if matches!(stretch.phase, Phase::Setup | Phase::Backward | Phase::Recompute | Phase::Optimizer)
                && turns.passes.last().is_none_or(|last| last.end != stretch.end)
            {
                turns.passes.push(stretch.from..stretch.end);
            }
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
    let (mut behind, mut phase_behind) = (NEVER, None);
    for &Run { phase, from, last, is_hook } in runs.iter().rev() {
        let next = behind;
        if is_hook {
            open.get_or_insert((last, behind));
        }
        let (last, end) =
            if phase.is_backward() { *open.get_or_insert((last, behind)) } else { (last, behind) };
        stretches.push(Stretch {
            from,
            phase,
            last,
            end,
            next,
            backward,
            second_forward: forward.1,
            another_forward_follows: phase_behind == Some(Phase::Forward),
            optimizer_follows: phase_behind == Some(Phase::Optimizer),
            after_backward: false,
        });
        phase_behind = Some(phase);
        if phase.is_backward() {
            backward = (from, end);
        } else if !is_hook {
            open = None;
        }
        if phase == Phase::Forward {
            forward = (from, forward.0);
        }
        behind = from;
    }
    stretches.reverse();
    let mut after_backward = false;
    for stretch in &mut stretches {
        stretch.after_backward = after_backward;
        after_backward |= stretch.phase.is_backward();
    }
    stretches
}
