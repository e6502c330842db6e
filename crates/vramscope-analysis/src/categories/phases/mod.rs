//! Divides a recording into phases: intervals in which the program did one thing.

mod loss_gradients;
mod parameters;
mod repetition;
mod run;
mod stacks;

use crate::categories::signs::Signs;
use crate::categories::stack_iterations::StackIterations;
use crate::history::{History, RecordedAllocation};

pub(crate) use run::Phase;
pub(super) use run::{NEVER, event, event_before, is_as_large_as_a_workspace, is_lt_workspace};

use run::Run;

/// An interval of events in one phase, and what follows it. Events are counted from 0; `u32::MAX` means never.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseInterval {
    /// The first event.
    pub(super) from: u32,
    pub(super) phase: Phase,
    /// The first allocation after the pass that this interval belongs to. A backward pass may have several intervals; in all
    /// other phases, each interval is a separate pass.
    pub(super) end: u32,
    /// The last allocation of this pass.
    pub(super) last: u32,
    /// The first event of the next interval.
    pub(super) next: u32,
    /// The first event of the next backward pass, and the first event after it.
    pub(super) backward: (u32, u32),
    /// The first event of the forward pass after the next one.
    pub(super) second_forward: u32,
    /// The phase of the next interval.
    pub(super) next_phase: Option<Phase>,
    /// Whether a backward pass comes before it.
    pub(super) after_backward: bool,
}

impl PhaseInterval {
    /// Whether the recording contains a later backward pass.
    pub(super) fn is_before_backward(self) -> bool {
        self.backward.0 != NEVER
    }
}

/// When an allocation was freed, relative to the backward passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// During a backward pass.
    InBackward,
    /// After the last allocation of a backward pass, and before any other allocation.
    AtItsEnd,
    /// At another time, or never.
    Elsewhere,
}

/// The phases of a device's recording, in order.
#[derive(Debug)]
pub(super) struct Phases {
    pub(super) intervals: Vec<PhaseInterval>,
    /// For each backward pass: the first event, the last allocation, and the first event after it; in order.
    passes: Vec<(u32, u32, u32)>,
    /// The event of the last allocation of the recording.
    last_allocation: u32,
    /// That event, or the end of the last backward pass if it is later.
    last_use: u32,
    /// The source of the phases; `None` if there is none, in which case everything is one interval.
    pub(super) known_from: Option<PhasesFrom>,
}

/// Consecutive allocations in one phase of a step, given by the indices of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InferredPhase {
    /// The phase; `None` for the model's setup, and for the program's own code.
    pub(crate) phase: Option<vramscope_trace::Phase>,
    /// The first and the last allocation.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The first event after the frees that follow the last allocation; `u32::MAX` at the end of the recording.
    pub(crate) end: u32,
}

/// The source of a recording's phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PhasesFrom {
    /// Frames in stacks.
    Stacks,
    /// Without stacks: the gradients of losses, or else repetition, and the rise and fall of memory within it.
    Repetition,
}

impl Phases {
    /// Determines the phases from stacks or, if there is no stack at all, from repetition.
    pub(super) fn of(history: &History, signs: &Signs) -> Self {
        let (known_from, mut runs) = if history.recorded().any(|a| history.stack_of(a).is_some()) {
            (PhasesFrom::Stacks, stacks::runs(history, signs))
        } else {
            let runs = loss_gradients::runs(history);
            (PhasesFrom::Repetition, if runs.is_empty() { repetition::runs(history) } else { runs })
        };
        let known_from = (!runs.is_empty()).then_some(known_from);
        if runs.is_empty() {
            runs.push(Run { phase: Phase::Between, from: 0, last: NEVER, is_hook: false });
        }
        let intervals = intervals(&runs);
        let mut passes: Vec<(u32, u32, u32)> = Vec::new();
        for s in intervals.iter().filter(|s| s.phase.is_backward()) {
            if passes.last().is_none_or(|&(.., end)| end != s.end) {
                passes.push((s.from, s.last, s.end));
            }
        }
        let last_allocation = history.recorded().last().map_or(NEVER, event);
        let last_use = passes.iter().map(|&(_, last, _)| last).chain([last_allocation]).max();
        let last_use = last_use.unwrap_or(NEVER);
        Self { intervals, passes, last_allocation, last_use, known_from }
    }

    /// Returns the phases of steps. Backward passes and the recomputation in them are one phase.
    pub(super) fn of_steps(&self) -> Vec<InferredPhase> {
        let mut phases: Vec<InferredPhase> = Vec::new();
        for interval in self.intervals.iter().filter(|_| self.known_from.is_some()) {
            let phase = match interval.phase {
                Phase::Setup | Phase::Between => None,
                Phase::Forward => Some(vramscope_trace::Phase::Forward),
                Phase::Backward | Phase::Recompute => Some(vramscope_trace::Phase::Backward),
                Phase::Optimizer => Some(vramscope_trace::Phase::Optimizer),
            };
            // The last allocation of a backward interval is that of the whole pass.
            let last = interval.last.min(interval.next.saturating_sub(1));
            match phases.last_mut() {
                Some(before) if before.phase == phase => (before.last, before.end) = (last, interval.next),
                _ => phases.push(InferredPhase { phase, first: interval.from, last, end: interval.next }),
            }
        }
        phases
    }

    /// Returns the number of backward passes.
    pub(super) fn backward_passes(&self) -> usize {
        self.passes.len()
    }

    /// Returns the event at which `a`, which was made in `interval`, was freed; [`NEVER`] if it was not. Without stacks, memory that the
    /// program frees as it ends counts as never freed: nothing else tells it from memory that a later step frees.
    pub(super) fn freed(&self, a: &RecordedAllocation, interval: PhaseInterval) -> u32 {
        let freed = event_before(a.freed);
        let ends_with_program =
            self.known_from == Some(PhasesFrom::Repetition) && interval.end != NEVER && freed > self.last_use;
        if ends_with_program { NEVER } else { freed }
    }

    /// Returns when event `freed` happened, relative to the backward passes.
    pub(super) fn given(&self, freed: u32) -> Given {
        let before = self.passes.partition_point(|&(from, ..)| from <= freed);
        match before.checked_sub(1).and_then(|last| self.passes.get(last)) {
            Some(&(_, last, _)) if freed < last => Given::InBackward,
            Some(&(.., end)) if freed < end && end != NEVER => Given::AtItsEnd,
            _ => Given::Elsewhere,
        }
    }

    /// Whether the recording ends before it could show when `a`, which was made in `interval`, was freed. After the last
    /// allocation, the end of a pass cannot be determined.
    pub(super) fn is_open(&self, a: &RecordedAllocation, interval: PhaseInterval) -> bool {
        let freed = event_before(a.freed);
        match interval.phase {
            Phase::Forward | Phase::Between => interval.backward.1 == NEVER && freed > self.last_allocation,
            _ => interval.end == NEVER && freed == NEVER,
        }
    }

    /// Returns the iterations of the program.
    pub(super) fn iterations(&self, history: &History) -> StackIterations {
        if self.known_from != Some(PhasesFrom::Stacks) {
            return StackIterations::default();
        }
        let count = |phase| self.intervals.iter().filter(|s| s.phase == phase).count();
        let rounds = match count(Phase::Forward) {
            0 => self.backward_passes().max(count(Phase::Optimizer)),
            forward => forward,
        };
        let first = self.intervals.iter().find(|s| s.phase != Phase::Setup);
        let mut iterations = StackIterations {
            most_iterations: u32::try_from(rounds).ok().filter(|&rounds| rounds > 0),
            steps: first.map(|s| s.from as usize).into_iter().collect(),
            one_optimizer: true,
            passes: Vec::new(),
        };
        let mut stepped = false;
        let (mut first_step, mut stack) = (true, None);
        for interval in &self.intervals {
            if matches!(interval.phase, Phase::Setup | Phase::Backward | Phase::Recompute | Phase::Optimizer)
                && iterations.passes.last().is_none_or(|last| last.end != interval.end)
            {
                iterations.passes.push(interval.from..interval.end);
            }
            match interval.phase {
                Phase::Optimizer if !stepped => {
                    stepped = true;
                    // The first step allocates state that later steps do not.
                    let here = history.device().events.get(interval.from as usize).stack;
                    if !std::mem::take(&mut first_step) {
                        iterations.one_optimizer &= *stack.get_or_insert(here) == here;
                    }
                }
                Phase::Optimizer => {}
                // The next step begins with its batch or with its forward pass.
                _ if std::mem::take(&mut stepped) => iterations.steps.push(interval.from as usize),
                _ => {}
            }
        }
        iterations
    }

    /// Calls `tell` for each recorded allocation, in event order, with the interval in which it was made.
    pub(super) fn each<'h>(
        &self,
        history: &'h History,
        mut tell: impl FnMut(&'h RecordedAllocation, PhaseInterval),
    ) {
        let mut at = 0;
        for a in history.recorded() {
            while self.intervals.get(at + 1).is_some_and(|s| s.from <= event(a)) {
                at += 1;
            }
            if let Some(&interval) = self.intervals.get(at) {
                tell(a, interval);
            }
        }
    }
}

/// Computes for each run what follows it.
fn intervals(runs: &[Run]) -> Vec<PhaseInterval> {
    let mut intervals = Vec::with_capacity(runs.len());
    let mut backward = (NEVER, NEVER);
    // The first events of the next forward pass and of the one after it.
    let mut forward = (NEVER, NEVER);
    // The current backward pass, seen from its end: its last allocation, and the first event after it.
    let mut open: Option<(u32, u32)> = None;
    let (mut behind, mut phase_behind) = (NEVER, None);
    for &Run { phase, from, last, is_hook } in runs.iter().rev() {
        let next = behind;
        if is_hook {
            open.get_or_insert((last, behind));
        }
        let (last, end) =
            if phase.is_backward() { *open.get_or_insert((last, behind)) } else { (last, behind) };
        intervals.push(PhaseInterval {
            from,
            phase,
            last,
            end,
            next,
            backward,
            second_forward: forward.1,
            next_phase: phase_behind,
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
    intervals.reverse();
    let mut after_backward = false;
    for interval in &mut intervals {
        interval.after_backward = after_backward;
        after_backward |= interval.phase.is_backward();
    }
    intervals
}
