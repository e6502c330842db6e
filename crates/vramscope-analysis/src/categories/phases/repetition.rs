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

use hashbrown::HashSet;

use super::run::{NEVER, Phase, Run, event, event_before};
use crate::categories::iterations::iteration_starts;
use crate::history::{History, RecordedAllocation};

/// Returns the phase runs that repetition shows; empty if nothing repeats.
pub(super) fn runs(history: &History) -> Vec<Run> {
    let starts = iteration_starts(history, u32::MAX);
    if starts.len() < 2 {
        return Vec::new();
    }
    let all: Vec<&RecordedAllocation> = history.recorded().collect();
    let number = |start: &usize| all.partition_point(|a| (event(a) as usize) < *start);
    let mut borders: Vec<usize> = starts.iter().map(number).collect();
    borders.push(all.len());
    let turns: Vec<Option<usize>> = borders
        .array_windows()
        .map(|&[from, to]| turn(&all[from..to], all.get(to).map_or(NEVER, |a| event(a))))
        .collect();
    let has_backward = turns.iter().flatten().count() * 2 > turns.len();
    if !has_backward {
        borders[0] -= trailing_run(&all[..borders[0]]);
    }
    let mut runs = Vec::new();
    let mut push = |phase, part: &[&RecordedAllocation]| {
        if let (Some(first), Some(last)) = (part.first(), part.last()) {
            runs.push(Run { phase, from: event(first), last: event(last), is_hook: false });
        }
    };
    let setup = &all[..borders[0]];
    push(Phase::Setup, setup);
    let before = history.allocations.iter().filter(|a| a.is_preexisting()).chain(setup.iter().copied());
    let parameters: HashSet<u64> = before.map(|a| a.requested).collect();
    let mut freed: Vec<u32> = all.iter().map(|a| event_before(a.freed)).collect();
    freed.sort_unstable();
    for (&[from, to], turn) in borders.array_windows().zip(turns) {
        let part = &all[from..to];
        let Some(turn) = turn.filter(|_| has_backward) else {
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

/// Returns the number of allocations of a step before its turn. The turn is the moment at which most of the memory is live that
/// is later freed in the opposite order, as a backward pass does. An optimizer's temporaries are freed in the order in which they
/// were allocated. Returns `None` if too few are freed in the opposite order, as in a program that only runs forward passes.
fn turn(part: &[&RecordedAllocation], end: u32) -> Option<usize> {
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
                is_opposite[change.number] =
                    at_once.len() <= MOST_AT_ONCE && live.behind(change.number) <= MOST_BEHIND;
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
fn optimizer(rest: &[&RecordedAllocation], freed: &[u32], parameters: &HashSet<u64>) -> usize {
    // Start of the current list.
    let mut begins = 0;
    for (number, a) in rest.iter().enumerate() {
        let gave_back = number > 0 && {
            let next = freed.partition_point(|&e| e < event(rest[number - 1]));
            freed.get(next).is_some_and(|&e| e < event(a))
        };
        if !parameters.contains(&a.requested) {
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
