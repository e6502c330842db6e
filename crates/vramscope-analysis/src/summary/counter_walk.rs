//! Results that need a walk over all moments, computed in one pass.

use crate::findings::{ActiveRange, leaks};
use crate::history::{Counters, History, Peaks};
use crate::regions::{Region, RunBytesWalk, moments_of, region_runs, regions_of};
use vramscope_basics::Cancel;

/// Results that depend on the counters at every moment.
#[derive(Debug, Clone)]
pub(crate) struct CounterWalk {
    pub(crate) peaks: Peaks,
    pub(crate) regions: Vec<Region>,
    /// Peaks over equal shares of the moments.
    pub(crate) timeline: Vec<Counters>,
    /// Whether the run up to the last allocation repeats itself; see [`leaks`].
    pub(crate) repeats: bool,
}

/// Number of shares in the timeline.
const SHARES: usize = 240;

impl CounterWalk {
    /// Walks `history` twice, because detecting falls of the active bytes requires their full range. After a cancellation, the
    /// results are incomplete.
    pub(crate) fn of(history: &History, cancel: &Cancel) -> Self {
        let runs = region_runs(history.trace(), history.device());
        let moments = moments_of(&runs, history.device()).filter(|moments| !moments.is_empty());
        let mut intervals = moments.map(RunBytesWalk::of);
        let last = leaks::last_allocation(history);
        let rises_until = last.map_or(0, |last| last + 2);
        let (mut peaks, mut active) = (Peaks::default(), ActiveRange::default());
        let moments = history.device().events.len() + 1;
        let shares = moments.min(SHARES);
        let mut timeline = vec![Counters::default(); shares];
        let mut walk = history.walk();
        for (number, share) in timeline.iter_mut().enumerate() {
            // Moment `m` belongs to share `m * shares / moments`.
            let border = |share: usize| (share * moments).div_ceil(shares);
            if cancel.is_cancelled() {
                break;
            }
            for (moment, c) in walk.by_ref().take(border(number + 1) - border(number)) {
                peaks.see(moment, c);
                if moment.index() < rises_until {
                    active.see(c.active);
                }
                if let Some(intervals) = &mut intervals {
                    intervals.see(moment, c.allocated);
                }
                share.requested = share.requested.max(c.requested);
                share.allocated = share.allocated.max(c.allocated);
                share.active = share.active.max(c.active);
                share.reserved = share.reserved.max(c.reserved);
            }
        }
        Self {
            peaks,
            regions: intervals
                .filter(|_| !cancel.is_cancelled())
                .map_or_else(Vec::new, |intervals| regions_of(history, &runs, intervals)),
            timeline,
            repeats: !cancel.is_cancelled() && last.is_some_and(|last| leaks::repeats(history, last, active)),
        }
    }
}
