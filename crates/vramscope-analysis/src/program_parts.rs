//! Which part of the program a stretch of a recording is: a step, the run of a region, or neither.

use vramscope_trace::{StringId, Trace};

use crate::moment::Moment;
use crate::regions::without_number;
use crate::steps::Steps;

/// The run of an annotated region by the moments between which it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBetween {
    /// The name of the region as it was recorded, with its number.
    pub name: StringId,
    /// The last moment before anything happened inside.
    pub from: Moment,
    /// The last moment inside.
    pub to: Moment,
}

/// The part of a program between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramPart {
    /// The moment before it.
    pub from: Moment,
    /// Its last moment.
    pub to: Moment,
    /// The region of which it is a run, by its name as it was recorded.
    pub region: Option<StringId>,
    /// The number of the step, from 0, that it is or in which it lies.
    pub step: Option<usize>,
    /// It is the whole of that step.
    pub is_step: bool,
}

impl ProgramPart {
    /// What lies between two moments. Of regions that ran exactly then it is the innermost.
    #[must_use]
    pub fn of(runs: &[RunBetween], steps: &Steps, from: Moment, to: Moment) -> Self {
        let step = steps.at(Moment::after(from.index())).filter(|&n| to <= steps.steps[n].to);
        let is_step = step.is_some_and(|n| (from, to) == (steps.steps[n].from, steps.steps[n].to));
        // Runs stand in the order of their ends: what is inside comes first.
        let run = runs.iter().find(|run| (run.from, run.to) == (from, to));
        Self { from, to, region: run.map(|run| run.name).filter(|_| !is_step), step, is_step }
    }

    /// The same part of the step before: that step, or the run of the region in it; without steps the run before. `None` where there is
    /// none, and where this is neither a step nor a region.
    #[must_use]
    pub fn before(&self, trace: &Trace, runs: &[RunBetween], steps: &Steps) -> Option<Self> {
        let step = self.step.map(|n| n.checked_sub(1));
        if self.is_step {
            let before = steps.steps[step??];
            return Some(Self::of(runs, steps, before.from, before.to));
        }
        let name = |id| without_number(trace.strings.get(id));
        let region = name(self.region?);
        let earlier = runs.iter().filter(|run| run.to <= self.from && name(run.name) == region);
        let mut earlier =
            earlier.map(|run| Self { region: Some(run.name), ..Self::of(runs, steps, run.from, run.to) });
        match step {
            None => earlier.next_back(),
            // Of several runs in a step the one that follows as many there.
            Some(step) => {
                let inside = earlier.clone().filter(|run| run.step == self.step).count();
                earlier.filter(|run| run.step == step && step.is_some()).nth(inside)
            }
        }
    }
}
