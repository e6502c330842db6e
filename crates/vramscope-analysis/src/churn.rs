//! What was allocated over the whole recording, freed or not.

use crate::frames::Frames;
use crate::history::{Allocation, History};
use crate::holders::{By, Holder, group};

/// Recorded allocations of the whole run that `takes` accepts, by group, most bytes first: `bytes`, `requested`
/// and `count` are totals over time, not what was live together.
pub fn churn(
    history: &History,
    frames: &Frames,
    by: By,
    takes: impl Fn(&&Allocation) -> bool,
) -> Vec<Holder> {
    let recorded = history.recorded().filter(takes);
    group(history, frames, recorded, None, by)
}
