//! Leaks by function, from readings alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::course::{Course, Floor};

/// Finds functions whose calls retain more and more memory, for sources that report no single allocations.
///
/// The retained memory of a name's calls has two upper bounds: what the calls left without their returned values, and the growth of the
/// allocated bytes since the first call. The lower one takes the place of the counted blocks of a [`LeakDetector`](super::LeakDetector).
/// The rule is the same. Its memory grows with the number of names, and with the logarithm of the number of calls.
#[derive(Debug, Default)]
pub struct FunctionLeaks {
    functions: BTreeMap<Arc<str>, Calls>,
}

/// A function whose calls retain more and more memory, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionLeakSuspect {
    /// The function's name.
    pub function_name: Arc<str>,
    /// Number of calls.
    pub calls: u64,
    /// Growth of the retained bytes since the first call that left memory, because one-time setup happens in that call.
    pub kept_bytes: u64,
    /// The growth per later call, in bytes.
    pub bytes_per_call: f64,
    /// Retained bytes that were not freed later, after each `calls_per_point` calls. If `calls_per_point` is more than 1, it may be lower
    /// than the exact number.
    pub floor: Vec<u64>,
    /// Number of calls per point of the floor.
    pub calls_per_point: u64,
}

/// The calls of one name.
#[derive(Debug, Default)]
struct Calls {
    calls: u64,
    /// Allocated bytes before the first call.
    start: u64,
    /// Bytes that the calls left.
    left: u64,
    /// Retained bytes after each call except the last.
    course: Course,
}

impl Calls {
    /// Returns an upper bound of the retained bytes.
    fn kept(&self, allocated: u64) -> u64 {
        self.left.min(allocated.saturating_sub(self.start))
    }

    fn suspect(&self, name: &Arc<str>, allocated: u64) -> Option<FunctionLeakSuspect> {
        let (mut course, kept) = (self.course.clone(), self.kept(allocated));
        course.push_until(self.calls, kept);
        let floor = Floor::of([&course].into_iter(), kept).filter(Floor::keeps_growing)?;
        let kept_bytes = kept - floor.points[0];
        Some(FunctionLeakSuspect {
            function_name: Arc::clone(name),
            calls: self.calls,
            kept_bytes,
            bytes_per_call: kept_bytes as f64 / (floor.calls - 1) as f64,
            floor: floor.points,
            calls_per_point: floor.calls_per_point,
        })
    }
}

impl FunctionLeaks {
    /// Adds an ended call, with the bytes that were allocated before and after it, and the bytes of its returned values, which belong to
    /// the caller.
    pub fn record(&mut self, function_name: &str, before: u64, after: u64, returned: u64) {
        let new = || Calls { start: before, ..Calls::default() };
        let calls = self.functions.entry(function_name.into()).or_insert_with(new);
        let kept = calls.kept(before);
        calls.course.push_until(calls.calls, kept);
        calls.calls += 1;
        // Memory freed since the last call no longer belongs to these calls.
        let grown = after.saturating_sub(before).saturating_sub(returned);
        calls.left = (kept + grown).saturating_sub(before.saturating_sub(after));
    }

    /// Returns the suspects, most bytes first. `allocated` is the number of bytes allocated now.
    pub fn suspects(&self, allocated: u64) -> Vec<FunctionLeakSuspect> {
        let suspects = self.functions.iter().filter_map(|(name, calls)| calls.suspect(name, allocated));
        let mut suspects: Vec<FunctionLeakSuspect> = suspects.collect();
        suspects.sort_by_key(|suspect| std::cmp::Reverse(suspect.kept_bytes));
        suspects
    }
}
