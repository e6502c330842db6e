//! The number of live blocks after each call, stored as steps.

use std::collections::BTreeMap;

use vramscope_analysis::keeps_growing;

/// Minimum number of calls before a leak is reported.
const FEWEST_CALLS: u64 = 3;

/// Maximum number of points of a floor.
const MOST_POINTS: u64 = 64;

/// Two steps that begin `age` calls ago are joined if together they last at most `age / FINENESS` calls. A point of a floor over all calls
/// is twice as wide.
const FINENESS: u64 = 2 * MOST_POINTS;

/// Number of steps below which none are joined.
const FEWEST_STEPS: usize = 256;

/// From call `from` (the first call is 0) to the next step, every call ended with at least `lowest` blocks. Until steps are joined, the
/// count is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    from: u64,
    lowest: u64,
}

/// The number of blocks after each call. Recent calls are exact. Neighboring older steps are joined to the lower one, so memory grows with
/// the logarithm of the number of calls.
#[derive(Debug, Default, Clone)]
pub(super) struct Course {
    steps: Vec<Step>,
    /// Number of calls that the steps cover.
    calls: u64,
    /// Number of steps above which steps are joined.
    most: usize,
}

impl Course {
    /// Records `blocks` blocks after each call, from the last recorded call until `calls` calls have ended.
    pub(super) fn push_until(&mut self, calls: u64, blocks: u64) {
        if calls <= self.calls {
            return;
        }
        if self.steps.last().map_or(0, |last| last.lowest) != blocks {
            self.steps.push(Step { from: self.calls, lowest: blocks });
        }
        self.calls = calls;
        if self.steps.len() > self.most.max(FEWEST_STEPS) {
            self.join();
            self.most = self.steps.len() * 2;
        }
    }

    /// Whether there was no block after any call.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn join(&mut self) {
        let mut joined: Vec<Step> = Vec::with_capacity(self.steps.len());
        for (i, &step) in self.steps.iter().enumerate() {
            let end = self.steps.get(i + 1).map_or(self.calls, |next| next.from);
            match joined.last_mut() {
                Some(last) if (end - last.from).saturating_mul(FINENESS) <= self.calls - last.from => {
                    last.lowest = last.lowest.min(step.lowest);
                }
                _ => joined.push(step),
            }
        }
        self.steps = joined;
    }
}

/// For each call, the lowest number of blocks after this or any later call. Starts at the first call after which there always was a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Floor {
    /// One value per `calls_per_point` calls.
    pub(super) points: Vec<u64>,
    pub(super) calls_per_point: u64,
    /// Number of calls that the points cover.
    pub(super) calls: u64,
}

impl Floor {
    /// Whether the floor is evidence of a leak: it covers enough calls, and keeps growing.
    pub(super) fn keeps_growing(&self) -> bool {
        self.calls >= FEWEST_CALLS && keeps_growing(&self.points)
    }

    /// Returns the floor of the sum of several courses that all end at the same call, followed by `now` blocks. `None` if there is no block
    /// now, or no block was live at the end of a call.
    pub(super) fn of<'c>(courses: impl Iterator<Item = &'c Course>, now: u64) -> Option<Self> {
        let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
        let mut calls = 0;
        for course in courses {
            calls = calls.max(course.calls);
            let mut before = 0;
            for step in &course.steps {
                *changes.entry(step.from).or_default() += step.lowest as i64 - before;
                before = step.lowest as i64;
            }
        }
        let mut sum = 0;
        let mut floor: Vec<Step> = Vec::with_capacity(changes.len());
        for (from, change) in changes {
            sum += change;
            floor.push(Step { from, lowest: sum.max(0) as u64 });
        }
        let mut lowest = now;
        for step in floor.iter_mut().rev() {
            lowest = lowest.min(step.lowest);
            step.lowest = lowest;
        }
        let first = floor.iter().position(|step| step.lowest > 0)?;
        let start = floor[first].from;
        let calls_per_point = (calls - start).div_ceil(MOST_POINTS).next_power_of_two();
        let at = |call: u64| floor[floor.partition_point(|step| step.from <= call) - 1].lowest;
        let points = (start..calls).step_by(calls_per_point as usize).map(at).collect();
        Some(Self { points, calls_per_point, calls: calls - start })
    }
}

#[cfg(test)]
mod tests;
