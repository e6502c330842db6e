//! Leaks grow from round to round; state that is made once does not.
//!
//! A first step of an optimizer makes its state parameter by parameter and frees other blocks between them. Inside that one step it looks
//! like a leak: the floor of its line rises in every window. So where stacks tell setups, backward passes and optimizer steps apart, and a
//! suspect's blocks were all made in these, they must come from several.

use crate::frames::Frames;
use crate::history::History;
use crate::leaks::{self, LeakSuspect};
use crate::purposes::{Purposes, Turns};

/// The fewest setups, backward passes or optimizer steps that a leak grows in.
const FEWEST_PASSES: usize = 3;

/// Lines whose live allocations keep growing from round to round through the whole run, most bytes first.
pub fn leak_suspects(history: &History, frames: &Frames) -> Vec<LeakSuspect> {
    let mut suspects = leaks::growing_lines(history, frames);
    if !suspects.is_empty() {
        drop_made_once(history, &Purposes::of(history), &mut suspects);
    }
    suspects
}

/// Drops the suspects whose kept blocks were all made in fewer than [`FEWEST_PASSES`].
pub(crate) fn drop_made_once(history: &History, purposes: &Purposes, suspects: &mut Vec<LeakSuspect>) {
    suspects.retain(|suspect| passes(history, purposes.turns(), suspect).is_none_or(|n| n >= FEWEST_PASSES));
}

/// In how many passes the blocks were made that `suspect` keeps; `None` where some were made outside of all.
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
