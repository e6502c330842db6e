//! Phases of a recording without stacks, as what repeats tells them.
//!
//! Within a step of training the forward pass keeps more and more for the backward pass, which gives it back in the opposite order: the
//! turn is where most of it is there. What a step makes after the turn and leaves to the next step are gradients; what it makes
//! there for good is kept by the optimizer.
//!
//! ```text
//!            turn
//!         /‾‾\
//!       /‾    ‾\___          allocations that will be given back in the opposite order
//!     /‾           ‾\
//!   forward  backward  optimizer
//! ```

use hashbrown::HashSet;

use super::run::{NEVER, Phase, Run, event, event_before};
use crate::history::{Allocation, History};
use crate::rhythm::rounds;

/// The runs of phases that the rhythm tells; nothing where there is none.
pub(super) fn runs(history: &History) -> Vec<Run> {
    let starts = rounds(history, u32::MAX);
    if starts.len() < 2 {
        return Vec::new();
    }
    let all: Vec<&Allocation> = history.recorded().collect();
    let number = |start: &usize| all.partition_point(|a| (event(a) as usize) < *start);
    let mut borders: Vec<usize> = starts.iter().map(number).collect();
    borders.push(all.len());
    let mut runs = Vec::new();
    let mut push = |phase, part: &[&Allocation]| {
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
    for &[from, to] in borders.array_windows() {
        let part = &all[from..to];
        let turn = turn(part, all.get(to).map_or(NEVER, |a| event(a)));
        let (forward, rest) = part.split_at(turn);
        let (backward, optimizer) = rest.split_at(optimizer(rest, &freed, &parameters));
        push(Phase::Forward, forward);
        push(Phase::Backward, backward);
        push(Phase::Optimizer, optimizer);
    }
    runs
}

/// How many allocations of a step lie before its turn: the moment at which most is there that will be given back in the opposite order,
/// as a backward pass does it; an optimizer's temporaries go in the order in which they came.
fn turn(part: &[&Allocation], end: u32) -> usize {
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
    part.partition_point(|a| event(a) <= at)
}

/// When a backward pass gives back what was kept for it, so many at most of what came later are still there: what it is at work on.
const MOST_BEHIND: usize = 3;

/// A backward pass gives back a few at most before it allocates again; an optimizer gives back whole lists.
const MOST_AT_ONCE: usize = 8;

/// An allocation of a step begins or ends.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    event: u32,
    begins: bool,
    number: usize,
}

/// Which allocations of a step are there, by number: a Fenwick tree of how many.
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

    /// How many with higher numbers are there.
    fn behind(&self, number: usize) -> usize {
        let (mut at, mut before) = (number + 1, 0);
        while at > 0 {
            before += self.sums[at];
            at &= at - 1;
        }
        self.all - before
    }
}

/// How many allocations of a step lie between its turn and its optimizer, which makes a whole list before it gives anything back, all as
/// large as parameters. A backward pass goes on giving back.
fn optimizer(rest: &[&Allocation], freed: &[u32], parameters: &HashSet<u64>) -> usize {
    // The list under way begins here.
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
