//! Determines which part of the program an interval of a recording is: a step, a phase, a run of a region, or none.

use vramscope_trace::{Phase, StringId, Trace};

use super::{StepPhase, Steps};
use crate::history::Moment;
use crate::regions::{RunBetween, without_number};

/// The part of a program between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramPart {
    /// The moment before its first event.
    pub from: Moment,
    /// Its last moment.
    pub to: Moment,
    /// The recorded name of the region, if the part is a run of a region.
    pub region: Option<StringId>,
    /// The phase, if the part is a phase of a step and no run of a region.
    pub phase: Option<Phase>,
    /// Whether this phase is inferred.
    pub is_inferred: bool,
    /// The index, from 0, of the step that it is or in which it is contained.
    pub step: Option<usize>,
    /// Whether the part is the whole step.
    pub is_step: bool,
}

impl ProgramPart {
    /// Returns the part between two moments. If several regions ran exactly then, the innermost is chosen.
    #[must_use]
    pub fn of(runs: &[RunBetween], steps: &Steps, from: Moment, to: Moment) -> Self {
        let step = steps.at(Moment::after(from.index())).filter(|&n| to <= steps.steps[n].to);
        let is_step = step.is_some_and(|n| (from, to) == (steps.steps[n].from, steps.steps[n].to));
        // Runs are in the order of their ends: inner runs come first.
        let run = runs.iter().find(|run| (run.from, run.to) == (from, to)).filter(|_| !is_step);
        let phase = steps.phase_between(from, to).filter(|_| !is_step && run.is_none());
        Self {
            from,
            to,
            region: run.map(|run| run.name),
            phase: phase.map(|phase| phase.phase),
            is_inferred: phase.is_some_and(|phase| phase.told_by.is_inferred()),
            step,
            is_step,
        }
    }

    /// Returns the same part of the previous step: that step, or the phase or the run of the region in it. Without steps, returns the
    /// previous phase of this kind, or the previous run. Returns `None` if there is none, or if this part is none of these.
    #[must_use]
    pub fn before(&self, trace: &Trace, runs: &[RunBetween], steps: &Steps) -> Option<Self> {
        let step = self.step.map(|n| n.checked_sub(1));
        if self.is_step {
            let before = steps.steps[step??];
            return Some(Self::of(runs, steps, before.from, before.to));
        }
        if self.phase.is_some() {
            let phase = steps.same_phase_before(steps.phase_between(self.from, self.to)?)?;
            return Some(Self::of(runs, steps, phase.from, phase.to));
        }
        let name = |id| without_number(trace.strings.get(id));
        let region = name(self.region?);
        let earlier = runs.iter().filter(|run| run.to <= self.from && name(run.name) == region);
        let mut earlier =
            earlier.map(|run| Self { region: Some(run.name), ..Self::of(runs, steps, run.from, run.to) });
        match step {
            None => earlier.next_back(),
            // If a step has several runs, the run at the same position.
            Some(step) => {
                let inside = earlier.clone().filter(|run| run.step == self.step).count();
                earlier.filter(|run| run.step == step && step.is_some()).nth(inside)
            }
        }
    }
}

impl Steps {
    /// Returns the phase with exactly these ends.
    fn phase_between(&self, from: Moment, to: Moment) -> Option<&StepPhase> {
        let number = self.phases.binary_search_by_key(&from, |phase| phase.from).ok()?;
        Some(&self.phases[number]).filter(|phase| phase.to == to)
    }

    /// Returns the phase of the same kind in the previous step, at the same position if there are several. Without steps, returns the
    /// previous phase of this kind.
    fn same_phase_before(&self, phase: &StepPhase) -> Option<&StepPhase> {
        let is_alike = |other: &&StepPhase| other.phase == phase.phase;
        let earlier = self.phases.iter().take_while(|other| other.from < phase.from).filter(is_alike);
        match phase.step {
            None => earlier.last(),
            Some(step) => {
                let inside = earlier.filter(|other| other.step == phase.step).count();
                self.phases_of(Some(step.checked_sub(1)?)).filter(is_alike).nth(inside)
            }
        }
    }
}
