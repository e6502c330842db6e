//! The phases of steps, as intervals of moments: recorded by the program, named by its regions, or inferred.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use vramscope_trace::{Action, Category, Phase};

use super::IntervalBytes;
use crate::categories::{AllocationCategories, InferredPhase, PhasesFrom};
use crate::history::{History, Moment, RecordedAllocation};
use crate::regions::{RunBetween, runs_between};

/// One phase of a step, from the moment before its first event to the moment before the first event of the next phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepPhase {
    /// The phase.
    pub phase: Phase,
    /// The source of the phase and of its boundaries.
    pub told_by: PhaseFrom,
    /// The index, from 0, of the step; `None` outside of all steps.
    pub step: Option<usize>,
    /// The moment right before the first event.
    pub from: Moment,
    /// The last moment of the phase.
    pub to: Moment,
    /// Its peak, and its allocations.
    pub bytes: IntervalBytes,
}

/// The source of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PhaseFrom {
    /// The program recorded the phase of each allocation.
    Recorded,
    /// A region of the program has the name of the phase.
    Region,
    /// Inferred from frames in stacks.
    Stacks,
    /// Inferred from repeated allocations, and from the rise and fall of memory within a step.
    Rhythm,
}

impl PhaseFrom {
    /// Whether rules inferred the phase.
    #[must_use]
    pub fn is_inferred(self) -> bool {
        matches!(self, Self::Stacks | Self::Rhythm)
    }
}

/// The sums of all phases of one kind in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseTotals {
    /// The phase.
    pub phase: Phase,
    /// Number of intervals.
    pub count: u64,
    /// Peak of allocated bytes in any of them.
    pub peak: u64,
    /// Bytes of all blocks allocated in them.
    pub allocated: u64,
    /// Number of these blocks.
    pub allocations: u64,
    /// Allocated bytes after each of them minus those before it, summed.
    pub kept: i64,
}

/// Sums phases of one step by kind, in the order in which each kind first occurs.
pub fn phase_totals<'p>(phases: impl IntoIterator<Item = &'p StepPhase>) -> Vec<PhaseTotals> {
    let mut totals: Vec<PhaseTotals> = Vec::new();
    for p in phases {
        let number = totals.iter().position(|t| t.phase == p.phase).unwrap_or_else(|| {
            totals.push(PhaseTotals {
                phase: p.phase,
                count: 0,
                peak: 0,
                allocated: 0,
                allocations: 0,
                kept: 0,
            });
            totals.len() - 1
        });
        let total = &mut totals[number];
        total.count += 1;
        total.peak = total.peak.max(p.bytes.peak);
        total.allocated += p.bytes.allocated;
        total.allocations += p.bytes.allocations;
        total.kept += p.bytes.kept;
    }
    totals
}

/// A phase as a half-open range of event indices.
#[derive(Debug, Clone, Copy)]
struct Part {
    phase: Phase,
    told_by: PhaseFrom,
    from: usize,
    to: usize,
}

/// Returns the phases of the device of `history`, in order and without overlaps, cut at the event indices `starts` of steps. Their
/// bytes are not measured yet.
pub(super) fn phases(
    history: &History,
    categories: &AllocationCategories,
    starts: &[usize],
) -> Vec<StepPhase> {
    let events = history.device().events.len();
    let mut parts = recorded(history, categories);
    if parts.is_empty() {
        let inferred = inferred(history, categories);
        parts = with_regions(inferred, &of_regions(&named(history)));
    }
    let mut phases = Vec::with_capacity(parts.len());
    for part in parts {
        let mut from = part.from;
        let to = part.to.min(events);
        while from < to {
            let step = starts.partition_point(|&start| start <= from).checked_sub(1);
            let end = starts.get(step.map_or(0, |step| step + 1)).map_or(to, |&next| next.min(to));
            phases.push(StepPhase {
                phase: part.phase,
                told_by: part.told_by,
                step,
                from: Moment::from_index(from),
                to: Moment::from_index(end),
                bytes: IntervalBytes::default(),
            });
            from = end;
        }
    }
    phases
}

/// Returns the phases that the program recorded with its allocations. A phase lasts until an allocation without this phase.
fn recorded(history: &History, categories: &AllocationCategories) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut open: Option<Phase> = None;
    for a in history.recorded() {
        let phase = categories.phase(a);
        let Some(event) = a.from.event() else { continue };
        if phase == open {
            continue;
        }
        if open.is_some()
            && let Some(last) = parts.last_mut()
        {
            last.to = event;
        }
        parts.extend(phase.map(|phase| Part {
            phase,
            told_by: PhaseFrom::Recorded,
            from: event,
            to: usize::MAX,
        }));
        open = phase;
    }
    parts
}

/// Returns the inferred phases. The frees of gradients outside of passes are a phase of their own.
fn inferred(history: &History, categories: &AllocationCategories) -> Vec<Part> {
    let Some((from, phases)) = categories.inferred_phases() else { return Vec::new() };
    let told_by = match from {
        PhasesFrom::Stacks => PhaseFrom::Stacks,
        PhasesFrom::Repetition => PhaseFrom::Rhythm,
    };
    let mut zeroed = zeroed(history, categories, phases).into_iter().peekable();
    let mut parts = Vec::with_capacity(phases.len());
    for &InferredPhase { phase, first, end, .. } in phases {
        let (first, end) = (first as usize, end as usize);
        let until = zeroed.peek().map_or(end, |zero| zero.from.min(end));
        parts.extend(phase.map(|phase| Part { phase, told_by, from: first, to: until }));
        while let Some(zero) = zeroed.next_if(|zero| zero.from < end) {
            parts.push(Part { phase: Phase::ZeroGrad, told_by, from: zero.from, to: zero.to });
        }
    }
    parts
}

/// A half-open range of event indices.
struct Events {
    from: usize,
    to: usize,
}

/// Returns, in order, the events between two allocations in which at least half of the live gradients are freed, from the first such
/// free to the last. Within a pass, gradients are not set to zero.
fn zeroed(history: &History, categories: &AllocationCategories, phases: &[InferredPhase]) -> Vec<Events> {
    let is_gradient = |a: &&RecordedAllocation| categories.category(a) == Category::Gradient;
    let (mut made, mut frees) = (Vec::new(), Vec::new());
    for a in history.allocations.iter().filter(is_gradient) {
        made.push(a.from.event().unwrap_or(0));
        frees.extend(a.freed.event().filter(|_| a.freed != Moment::NEVER));
    }
    made.sort_unstable();
    frees.sort_unstable();
    let actions = history.device().events.actions();
    let mut zeroed = Vec::new();
    let (mut allocated, mut freed) = (0, 0);
    let mut phases = phases.iter().peekable();
    let mut allocations = history.recorded().filter_map(|a| a.from.event()).peekable();
    while let Some(event) = allocations.next() {
        while phases.next_if(|phase| (phase.end as usize) <= event).is_some() {}
        let next = allocations.peek().copied().unwrap_or(actions.len());
        let is_in_pass =
            phases.peek().is_some_and(|phase| phase.phase.is_some() && next <= phase.last as usize);
        allocated += made[allocated..].partition_point(|&made| made <= event);
        let live = allocated.saturating_sub(freed);
        let from = freed;
        freed += frees[freed..].partition_point(|&free| free < next);
        if let (Some(&first), Some(&last)) = (frees[from..freed].first(), frees[from..freed].last())
            && !is_in_pass
            && (freed - from) * 2 >= live
        {
            // A free may have a second event.
            let is_second = actions.get(last + 1) == Some(&Action::FreeCompleted);
            zeroed.push(Events { from: first, to: (last + 1 + usize::from(is_second)).min(next) });
        }
    }
    zeroed
}

/// The runs of regions that have the name of a phase.
fn named(history: &History) -> Vec<(Phase, RunBetween)> {
    let strings = &history.trace().strings;
    let mut phases = hashbrown::HashMap::new();
    let runs = runs_between(history).into_iter();
    let phase_of = |run: RunBetween| {
        let phase = *phases.entry(run.name).or_insert_with(|| phase_named(strings.get(run.name)));
        phase.filter(|_| run.from < run.to).map(|phase| (phase, run))
    };
    runs.filter_map(phase_of).collect()
}

/// Returns the phase that a region's name says: `forward`, `DistributedDataParallel.forward`, `Optimizer.step#Adam.step`.
fn phase_named(name: &str) -> Option<Phase> {
    let name = name.split('#').next()?;
    let name: String = name.chars().filter(|c| c.is_alphanumeric() || *c == '.').collect();
    let name = name.to_lowercase();
    match &*name {
        "optimizer" | "optimizerstep" | "optimizer.step" => Some(Phase::Optimizer),
        "zerograd" | "optimizer.zerograd" => Some(Phase::ZeroGrad),
        _ => match name.rsplit('.').next()? {
            "forward" | "fwd" | "forwardpass" => Some(Phase::Forward),
            "backward" | "bwd" | "backwardpass" => Some(Phase::Backward),
            "optimizerstep" => Some(Phase::Optimizer),
            _ => None,
        },
    }
}

/// Returns the phases of regions without overlaps: the innermost region decides.
fn of_regions(runs: &[(Phase, RunBetween)]) -> Vec<Part> {
    let mut borders: Vec<(usize, bool, usize)> = Vec::with_capacity(runs.len() * 2);
    for (number, (_, run)) in runs.iter().enumerate() {
        borders.extend([(run.from.index(), true, number), (run.to.index(), false, number)]);
    }
    borders.sort_unstable();
    let mut open = BTreeSet::new();
    let mut parts: Vec<Part> = Vec::new();
    for at in borders.chunk_by(|a, b| a.0 == b.0) {
        let event = at[0].0;
        for &(_, begins, number) in at {
            let (_, run) = runs[number];
            // Runs are in the order of their ends: inner runs come first.
            let key = (run.from, Reverse(run.to), Reverse(number));
            if begins {
                open.insert(key);
            } else {
                open.remove(&key);
            }
        }
        let innermost = open.last().map(|&(.., Reverse(number))| runs[number].0);
        // Every part is open until the next border.
        match parts.last_mut() {
            Some(last) if last.to == usize::MAX && Some(last.phase) == innermost => continue,
            Some(last) if last.to == usize::MAX => last.to = event,
            _ => {}
        }
        parts.extend(innermost.map(|phase| Part {
            phase,
            told_by: PhaseFrom::Region,
            from: event,
            to: usize::MAX,
        }));
    }
    parts
}

/// Returns `inferred` outside of `regions`, and `regions`, in order.
fn with_regions(inferred: Vec<Part>, regions: &[Part]) -> Vec<Part> {
    let mut parts = Vec::with_capacity(inferred.len() + regions.len());
    let mut next = regions.iter().peekable();
    for part in inferred {
        let mut from = part.from;
        while let Some(region) = next.next_if(|region| region.to <= from) {
            parts.push(*region);
        }
        while let Some(&&region) = next.peek()
            && region.from < part.to
        {
            if from < region.from {
                parts.push(Part { from, to: region.from, ..part });
            }
            from = region.to;
            if region.to > part.to {
                break;
            }
            parts.push(region);
            next.next();
        }
        if from < part.to {
            parts.push(Part { from, ..part });
        }
    }
    parts.extend(next);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_region_decides_its_phase() {
        for (name, phase) in [
            ("forward", Some(Phase::Forward)),
            ("Forward pass", Some(Phase::Forward)),
            ("DistributedDataParallel.forward", Some(Phase::Forward)),
            ("backward", Some(Phase::Backward)),
            ("[Strategy]SingleDeviceStrategy.backward", Some(Phase::Backward)),
            ("Optimizer.step#Adam.step", Some(Phase::Optimizer)),
            ("optimizer_step", Some(Phase::Optimizer)),
            ("Optimizer.zero_grad#SGD.zero_grad", Some(Phase::ZeroGrad)),
            ("zero_grad", Some(Phase::ZeroGrad)),
            ("ProfilerStep#3", None),
            ("forward and backward", None),
            ("layer1.conv", None),
            ("", None),
        ] {
            assert_eq!(phase_named(name), phase, "{name}");
        }
    }

    fn part(told_by: PhaseFrom, phase: Phase, from: usize, to: usize) -> Part {
        Part { phase, told_by, from, to }
    }

    #[test]
    fn regions_win_over_inferred_phases_event_by_event() {
        use Phase::{Backward, Forward, Optimizer};
        use PhaseFrom::{Region, Stacks};
        let mut state = 7_u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % n) as usize
        };
        for _ in 0..500 {
            let mut parts = |told_by| {
                let mut at = 0;
                let mut parts = Vec::new();
                for phase in [Forward, Backward, Optimizer, Forward, Backward] {
                    let from = at + random(4);
                    let to = from + 1 + random(9);
                    parts.push(part(told_by, phase, from, to));
                    at = to;
                }
                parts
            };
            let (inferred, regions) = (parts(Stacks), parts(Region));
            let at = |parts: &[Part], event: usize| {
                let here: Vec<_> = parts.iter().filter(|p| (p.from..p.to).contains(&event)).collect();
                assert!(here.len() < 2, "{parts:?}");
                here.first().map(|p| (p.phase, p.told_by))
            };
            let both = with_regions(inferred.clone(), &regions);
            assert!(both.is_sorted_by_key(|p| p.from), "{both:?}");
            for event in 0..70 {
                let expected = at(&regions, event).or_else(|| at(&inferred, event));
                assert_eq!(at(&both, event), expected, "{event}: {inferred:?} {regions:?} {both:?}");
            }
        }
    }
}
