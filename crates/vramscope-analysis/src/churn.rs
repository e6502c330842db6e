//! Totals of all allocations in a recording, freed or not.

use crate::frames::Frames;
use crate::history::{Allocation, History};
use crate::holders::{By, Holder, group};

/// Sums the recorded allocations of the whole run that `takes` accepts, by group, most bytes first. `bytes`, `requested` and
/// `count` are totals over time; the allocations need not be live at the same time.
pub fn churn(
    history: &History,
    frames: &Frames,
    by: By,
    takes: impl Fn(&&Allocation) -> bool,
) -> Vec<Holder> {
    let recorded = history.recorded().filter(takes);
    group(history, frames, recorded, None, by)
}
