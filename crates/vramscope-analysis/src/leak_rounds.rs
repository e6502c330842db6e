//! Distinguishes leaks, which grow from iteration to iteration, from state that is made once.
//!
//! In its first step, an optimizer makes its state parameter by parameter and frees other blocks in between. Within that step,
//! this looks like a leak: the floor of its line rises in every window. If stacks show setups, backward passes and optimizer
//! steps, and all of a suspect's blocks were made in these, then they must come from several of them.

use crate::frames::Frames;
use crate::history::History;
use crate::leaks::{self, LeakSuspect};
use crate::purposes::{Purposes, Turns};

/// The smallest number of setups, backward passes or optimizer steps in which a leak grows.
const FEWEST_PASSES: usize = 3;

/// Returns the lines whose live allocations keep growing from iteration to iteration through the whole run, most bytes first.
pub fn leak_suspects(history: &History, frames: &Frames) -> Vec<LeakSuspect> {
    let mut suspects = leaks::growing_lines(history, frames);
    if !suspects.is_empty() {
        drop_made_once(history, &Purposes::of(history), &mut suspects);
    }
    suspects
}

/// Drops the suspects whose retained blocks were all made in fewer than [`FEWEST_PASSES`] passes.
pub(crate) fn drop_made_once(history: &History, purposes: &Purposes, suspects: &mut Vec<LeakSuspect>) {
    suspects.retain(|suspect| passes(history, purposes.turns(), suspect).is_none_or(|n| n >= FEWEST_PASSES));
}

/// Returns the number of passes that made the blocks that `suspect` retains; `None` if some were made outside all passes.
fn passes(history: &History, turns: &Turns, suspect: &LeakSuspect) -> Option<usize> {
    let mut count = 0;
    let mut last = None;
    for a in history.recorded().filter(|a| suspect.keeps(a)) {
        let pass = turns.pass_at(u32::try_from(a.from.event()?).ok()?)?;
        if last != Some(pass) {
            count += 1;
            last = Some(pass);
        }
    }
    Some(count)
}
