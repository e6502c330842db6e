//! The steps of a program that repeats itself: iterations of training or serving.
//!
//! - `interval_bytes`: the peak and the allocations of many intervals, in one walk.
//! - `phases`: the phases of steps: forward, backward, optimizer.
//! - `program_part`: the step, the phase or the run of a region that an interval is.

mod interval_bytes;
mod phases;
mod program_part;

use std::cmp::Reverse;

use hashbrown::HashMap;

use crate::categories::{AllocationCategories, iteration_starts};
use crate::history::{History, Moment, Origin, RecordedAllocation, rising_times};
use crate::regions::{region_runs, runs_between};
pub use interval_bytes::IntervalBytes;
use interval_bytes::Pieces;
pub use phases::{PhaseFrom, PhaseTotals, StepPhase, phase_totals};
pub use program_part::ProgramPart;

/// One step, from the moment before its first event to the moment before the first event of the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The moment right before the first event.
    pub from: Moment,
    /// The last moment of the step.
    pub to: Moment,
    /// Its peak, and its allocations.
    pub bytes: IntervalBytes,
    /// Whether the step makes the same allocations as most steps: the same number of each size at each stack. True for all steps
    /// if fewer than half are the same.
    pub is_usual: bool,
}

/// The steps of a device's recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// The steps in order; empty if nothing repeats.
    pub steps: Vec<Step>,
    /// The source of the step boundaries.
    pub told_by: StepsFrom,
    /// The largest number of steps that make exactly the same allocations; 0 if no two do.
    pub usual: usize,
    /// The phases of all steps, in order and without overlaps. Also those of a program without steps.
    pub phases: Vec<StepPhase>,
}

/// The source of the step boundaries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StepsFrom {
    /// Annotations named `ProfilerStep#`, from PyTorch's profiler or the program itself.
    Annotations,
    /// A step ends with each step of the optimizer.
    Optimizer,
    /// Repeated allocations.
    #[default]
    Rhythm,
}

impl Steps {
    /// Finds the steps of the device of `history`; `categories` must be those of its allocations.
    #[must_use]
    pub fn of(history: &History, categories: &AllocationCategories) -> Self {
        let (told_by, starts) = starts(history, categories);
        let (told_by, starts) = if starts.len() < 2 { Default::default() } else { (told_by, starts) };
        let mut phases = phases::phases(history, categories, &starts);
        if starts.is_empty() && phases.is_empty() {
            return Self::default();
        }
        let events = history.device().events.len();
        let ends = starts.iter().skip(1).copied().chain([events]);
        let intervals: Vec<[Moment; 2]> =
            starts.iter().zip(ends).map(|(&from, to)| [from, to].map(Moment::from_index)).collect();
        let borders = intervals.iter().copied().chain(phases.iter().map(|p| [p.from, p.to])).flatten();
        let pieces = Pieces::of(history, borders.collect());
        for phase in &mut phases {
            phase.bytes = pieces.bytes(phase.from, phase.to);
        }
        let step =
            |&[from, to]: &[Moment; 2]| Step { from, to, bytes: pieces.bytes(from, to), is_usual: true };
        let mut steps: Vec<Step> = intervals.iter().map(step).collect();
        let usual = mark_unusual(&mut steps, &pieces);
        Self { steps, told_by, usual, phases }
    }

    /// Returns the index, from 0, of the step that contains an allocation made at `moment`; `None` before the first step.
    #[must_use]
    pub fn at(&self, moment: Moment) -> Option<usize> {
        // The moments of a step are those after its events.
        self.steps.partition_point(|s| s.from < moment).checked_sub(1)
    }

    /// Returns the index of the step in which `allocation` was made; `None` before the first step, or if the allocation was not
    /// recorded.
    #[must_use]
    pub fn made_in(&self, allocation: &RecordedAllocation) -> Option<usize> {
        (allocation.origin == Origin::Recorded).then(|| self.at(allocation.from)).flatten()
    }

    /// Returns the phases of a step, in order; with `None`, those outside of all steps.
    pub fn phases_of(&self, step: Option<usize>) -> impl Iterator<Item = &StepPhase> {
        self.phases.iter().filter(move |phase| phase.step == step)
    }

    /// Returns the first unusual step. The first step is ignored, and so is the last, because the recording may end within it.
    #[must_use]
    pub fn first_unusual(&self) -> Option<usize> {
        let whole = self.steps.len().saturating_sub(1);
        (1..whole).find(|&n| !self.steps[n].is_usual)
    }

    /// Returns the step with the median peak among the steps after the first; `None` if there are fewer than three of them.
    #[must_use]
    pub fn median(&self) -> Option<usize> {
        self.typical().filter(|_| self.steps.len() > 3)
    }

    /// Returns the step with the median peak among the steps after the first; the lower one if there are two in the middle.
    #[must_use]
    pub fn typical(&self) -> Option<usize> {
        let mut later: Vec<usize> = (1..self.steps.len()).collect();
        later.sort_unstable_by_key(|&n| (self.steps[n].bytes.peak, n));
        later.get(later.len().saturating_sub(1) / 2).copied()
    }

    /// Returns by how much `peak` exceeds the usual peak of a step, if that is at least half of it.
    #[must_use]
    pub(crate) fn above_usual(&self, peak: u64) -> Option<u64> {
        let usual = self.steps[self.median()?].bytes.peak;
        peak.checked_sub(usual).filter(|&above| above >= usual / 2)
    }

    /// Returns the step with the highest peak; the first of several.
    #[must_use]
    pub fn highest(&self) -> Option<usize> {
        (0..self.steps.len()).max_by_key(|&n| (self.steps[n].bytes.peak, Reverse(n)))
    }
}

/// Returns the indices of the events that start steps.
fn starts(history: &History, categories: &AllocationCategories) -> (StepsFrom, Vec<usize>) {
    let annotated = annotated(history);
    if annotated.len() >= 2 {
        return (StepsFrom::Annotations, annotated);
    }
    let iterations = categories.iterations();
    if iterations.steps.len() >= 3 && iterations.one_optimizer {
        return (StepsFrom::Optimizer, iterations.steps.clone());
    }
    let repeated = iteration_starts(history, iterations.most_iterations.unwrap_or(u32::MAX));
    // An optimizer that steps more often than there are iterations is one of several.
    let is_one =
        |steps: &Vec<usize>| steps.len() >= 2 && (repeated.is_empty() || steps.len() <= repeated.len() + 1);
    let regions = after_optimizer_regions(history, &iterations.steps);
    let by_optimizer = [regions, iterations.steps.clone()].into_iter().filter(is_one).max_by_key(Vec::len);
    by_optimizer.map_or((StepsFrom::Rhythm, repeated), |steps| (StepsFrom::Optimizer, steps))
}

/// Returns the first of `steps`, and the first allocation after each optimizer step for which PyTorch recorded a region: the stacks do not
/// show optimizer steps that make no allocation. Empty if the regions have several names.
fn after_optimizer_regions(history: &History, steps: &[usize]) -> Vec<usize> {
    let strings = &history.trace().strings;
    let mut runs = runs_between(history);
    runs.retain(|run| strings.get(run.name).starts_with("Optimizer.step#"));
    let (Some(&start), Some(first)) = (steps.first(), runs.first()) else { return Vec::new() };
    if runs.iter().any(|run| run.name != first.name) {
        return Vec::new();
    }
    let mut ends = runs.iter().map(|run| run.to.index()).filter(|&end| end > start).peekable();
    let allocations = history.recorded().filter_map(|a| a.from.event());
    let is_after = |&event: &usize| {
        let is_first = ends.peek().is_some_and(|&end| end <= event);
        while ends.next_if(|&end| end <= event).is_some() {}
        is_first
    };
    std::iter::once(start).chain(allocations.filter(is_after)).collect()
}

/// Returns the first events in the runs of regions that are named as steps.
fn annotated(history: &History) -> Vec<usize> {
    let trace = history.trace();
    let is_step = |name| trace.strings.get(name).starts_with("ProfilerStep#");
    let mut begins: Vec<i64> =
        region_runs(trace, history.device()).iter().filter(|r| is_step(r.name)).map(|r| r.start_us).collect();
    if begins.len() < 2 {
        return Vec::new();
    }
    begins.sort_unstable();
    let mut starts = Vec::with_capacity(begins.len());
    let mut begins = begins.into_iter().peekable();
    for (event, time) in rising_times(history.device()).enumerate() {
        let Some(time) = time else { return Vec::new() };
        if begins.next_if(|&begin| begin <= time).is_some() {
            starts.push(event);
            // Regions without events are merged with the next one.
            while begins.next_if(|&begin| begin <= time).is_some() {}
        }
    }
    starts
}

/// Marks the steps that do not make the allocations of most steps. Returns the number of steps that make these.
fn mark_unusual(steps: &mut [Step], pieces: &Pieces) -> usize {
    let made: Vec<u64> = steps.iter().map(|step| pieces.allocations_hash(step.from, step.to)).collect();
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for &sum in &made {
        *counts.entry(sum).or_default() += 1;
    }
    let usual = counts.into_iter().filter(|&(_, count)| count > 1).max_by_key(|&(_, count)| count);
    // If most steps differ from each other, none is unusual.
    let rule = usual.filter(|&(_, count)| 2 * count >= steps.len());
    for (step, sum) in steps.iter_mut().zip(made) {
        step.is_usual = rule.is_none_or(|(usual, _)| sum == usual);
    }
    usual.map_or(0, |(_, count)| count)
}
