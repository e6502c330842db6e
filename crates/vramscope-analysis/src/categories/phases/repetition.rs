//! Infers the phases of a recording without stacks from its repetition.
//!
//! In a training step, the forward pass retains more and more memory for the backward pass, which frees it in the opposite order.
//! The turn between them is where most of this memory is live. Allocations made after the turn and retained until the next step
//! are gradients; those that are never freed are the optimizer's.
//!
//! ```text
//!            turn
//!         /‾‾\
//!       /‾    ‾\___          allocations that will be freed in the opposite order
//!     /‾           ‾\
//!   forward  backward  optimizer
//! ```

use super::parameters::ParameterSizes;
use super::run::{NEVER, Phase, Run, event, event_before, is_as_large_as_a_workspace};
use crate::categories::iterations::iteration_starts;
use crate::history::{History, RecordedAllocation};

/// Returns the phase runs that repetition shows; empty if nothing repeats, or if the evidence is contradictory.
pub(super) fn runs(history: &History) -> Vec<Run> {
    let starts = iteration_starts(history, u32::MAX);
    if starts.len() < 2 {
        return Vec::new();
    }
    let all: Vec<&RecordedAllocation> = history.recorded().collect();
    let number = |start: &usize| all.partition_point(|a| (event(a) as usize) < *start);
    let mut borders: Vec<usize> = starts.iter().map(number).collect();
    borders.push(all.len());
    if retain_much(&all, &borders) {
        return Vec::new();
    }
    let begins = setup(&all, borders[0]);
    let setup = &all[..begins];
    let before = history.allocations.iter().filter(|a| a.is_preexisting()).chain(setup.iter().copied());
    let parameters = ParameterSizes::of(before);
    let is_most = |count: usize| count * 2 > borders.len() - 1;
    let steps = || borders.array_windows().map(|&[from, to]| (from, to));
    let has_gradients =
        is_most(steps().filter(|&(from, to)| parameters.have_gradients_in(&all[from..to])).count());
    let turn_of = |(from, to): (usize, usize)| {
        turn(&all[from..to], all.get(to).map_or(NEVER, |a| event(a)), &parameters)
    };
    if parameters.is_empty() || has_gradients && !is_most(steps().filter_map(turn_of).count()) {
        return Vec::new();
    }
    let mut runs = Vec::new();
    let mut push = |phase, part: &[&RecordedAllocation]| {
        if let (Some(first), Some(last)) = (part.first(), part.last()) {
            runs.push(Run { phase, from: event(first), last: event(last), is_hook: false });
        }
    };
    let begins = if has_gradients { begins } else { begins - trailing_run(setup) };
    push(Phase::Setup, &all[..begins]);
    let mut freed: Vec<u32> = all.iter().map(|a| event_before(a.freed)).collect();
    freed.sort_unstable();
    // Repetition may not show the first step, which allocates more than the others.
    for (from, to) in std::iter::once((begins, borders[0])).chain(steps()) {
        let part = &all[from..to];
        let Some(turn) = turn_of((from, to)).filter(|_| has_gradients) else {
            push(Phase::Forward, part);
            continue;
        };
        let (forward, rest) = part.split_at(turn);
        let (backward, optimizer) = rest.split_at(optimizer(rest, &freed, &parameters));
        push(Phase::Forward, forward);
        push(Phase::Backward, backward);
        push(Phase::Optimizer, optimizer);
    }
    runs
}

/// Whether most steps retain a large part of their memory beyond the next step. They are then parts of a longer step, such as layers of a
/// model in a forward pass.
fn retain_much(all: &[&RecordedAllocation], borders: &[usize]) -> bool {
    // The first step allocates what all steps need.
    let steps = || borders.array_windows().skip(1);
    let retains_much = |&&[from, to, next]: &&[usize; 3]| {
        let end = all.get(next).map_or(NEVER, |a| event(a));
        let made: u64 = all[from..to].iter().map(|a| a.size).sum();
        let retained: u64 =
            all[from..to].iter().filter(|a| event_before(a.freed) >= end).map(|a| a.size).sum();
        retained as f64 > made as f64 * MUCH
    };
    steps().filter(retains_much).count() * 2 > steps().count()
}

/// See [`retain_much`].
const MUCH: f64 = 0.2;

/// Returns the number of allocations of the setup, which is before allocation `first`. It ends after the last tensor that outlives the recording
/// and before the first workspace, which the first operations allocate.
fn setup(all: &[&RecordedAllocation], first: usize) -> usize {
    let last = all.last().map_or(NEVER, |a| event(a));
    let end = all[..first].iter().position(|a| is_as_large_as_a_workspace(a)).unwrap_or(first);
    all[..end].iter().rposition(|a| event_before(a.freed) >= last).map_or(0, |last| last + 1)
}

/// Returns the number of allocations of a step before its turn. The turn is the moment at which most of the memory is live that
/// is later freed in the opposite order, as a backward pass does. An optimizer's temporaries are freed in the order in which they
/// were allocated. Tensors of the size of a parameter do not count: they may be gradients. Returns `None` if too few are freed in the opposite
/// order, as in a program that only runs forward passes.
fn turn(part: &[&RecordedAllocation], end: u32, parameters: &ParameterSizes) -> Option<usize> {
    let mut changes: Vec<Change> = Vec::with_capacity(part.len() * 2);
    for (number, a) in part.iter().enumerate().filter(|(_, a)| event_before(a.freed) < end) {
        changes.push(Change { event: event(a), number, begins: true });
        changes.push(Change { event: event_before(a.freed), number, begins: false });
    }
    changes.sort_unstable();
    let mut live = Live::of(part.len());
    let mut is_opposite = vec![false; part.len()];
    for at_once in changes.chunk_by(|a, b| a.begins == b.begins) {
        for change in at_once {
            if change.begins {
                live.add(change.number);
            } else {
                live.remove(change.number);
                is_opposite[change.number] = at_once.len() <= MOST_AT_ONCE
                    && live.behind(change.number) <= MOST_BEHIND
                    && !parameters.contains(part[change.number].requested);
            }
        }
    }
    let (mut held, mut most, mut at) = (0_usize, 0, 0);
    for change in changes.iter().filter(|c| is_opposite[c.number]) {
        held = if change.begins { held + 1 } else { held - 1 };
        if held > most {
            (most, at) = (held, change.event);
        }
    }
    (most >= FEWEST_HELD).then(|| part.partition_point(|a| event(a) <= at))
}

/// A backward pass frees at least this many allocations in the opposite order.
const FEWEST_HELD: usize = 3;

/// Returns the length of the run of equal sizes that ends a setup, if it is long. A server's caches are such a run; without a backward pass,
/// nothing distinguishes them from parameters.
fn trailing_run(setup: &[&RecordedAllocation]) -> usize {
    let run =
        setup.iter().rev().take_while(|a| Some(a.requested) == setup.last().map(|a| a.requested)).count();
    if run >= LONG_RUN { run } else { 0 }
}

/// The smallest number of equal sizes that may be caches.
const LONG_RUN: usize = 4;

/// When a backward pass frees memory retained for it, at most this many later allocations are still live: those that it works on.
const MOST_BEHIND: usize = 3;

/// A backward pass frees at most this many allocations before it allocates again; an optimizer frees whole lists.
const MOST_AT_ONCE: usize = 8;

/// The begin or end of an allocation of a step.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    event: u32,
    begins: bool,
    number: usize,
}

/// The live allocations of a step, by number, in a Fenwick tree of counts.
struct Live {
    sums: Vec<usize>,
    all: usize,
}

impl Live {
    fn of(most: usize) -> Self {
        Self { sums: vec![0; most + 1], all: 0 }
    }

    fn add(&mut self, number: usize) {
        self.all += 1;
        self.each_above(number, |sum| *sum += 1);
    }

    fn remove(&mut self, number: usize) {
        self.all -= 1;
        self.each_above(number, |sum| *sum -= 1);
    }

    fn each_above(&mut self, number: usize, change: impl Fn(&mut usize)) {
        let mut at = number + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            change(sum);
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the number of live allocations with higher numbers.
    fn behind(&self, number: usize) -> usize {
        let (mut at, mut before) = (number + 1, 0);
        while at > 0 {
            before += self.sums[at];
            at &= at - 1;
        }
        self.all - before
    }
}

/// Returns the number of allocations of a step between its turn and its optimizer step. The optimizer makes a whole list of
/// parameter-sized allocations before it frees any; a backward pass keeps freeing.
fn optimizer(rest: &[&RecordedAllocation], freed: &[u32], parameters: &ParameterSizes) -> usize {
    // Start of the current list.
    let mut begins = 0;
    for (number, a) in rest.iter().enumerate() {
        let gave_back = number > 0 && {
            let next = freed.partition_point(|&e| e < event(rest[number - 1]));
            freed.get(next).is_some_and(|&e| e < event(a))
        };
        if !parameters.contains(a.requested) {
            begins = number + 1;
        } else if gave_back {
            begins = number;
        }
        if number + 1 > begins + MOST_AT_ONCE {
            return begins;
        }
    }
    rest.len()
}
