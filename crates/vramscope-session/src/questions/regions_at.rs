//! The annotated region in which an allocation was made.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use vramscope_analysis::{Moment, RunBetween};
use vramscope_trace::StringId;

/// The innermost region at each moment.
#[derive(Debug)]
pub(crate) struct RegionsAt {
    /// The first moment of each new innermost region, in order.
    changes: Vec<(usize, Option<StringId>)>,
}

impl RegionsAt {
    /// Computes the regions from a device's region runs.
    pub(crate) fn of(runs: &[RunBetween]) -> Self {
        // Allocations in a run have the moments after its first one.
        let mut ends: Vec<(usize, bool, usize)> = Vec::new();
        for (number, run) in runs.iter().enumerate().filter(|(_, run)| run.from < run.to) {
            ends.extend([(run.from.index() + 1, true, number), (run.to.index() + 1, false, number)]);
        }
        ends.sort_unstable();
        let mut open = BTreeSet::new();
        let mut changes: Vec<(usize, Option<StringId>)> = Vec::new();
        for (at, begins, run) in ends {
            // The innermost run is the one that began last; among runs that began together, the one that ends first.
            let key = (runs[run].from, Reverse(runs[run].to), run);
            if begins {
                open.insert(key);
            } else {
                open.remove(&key);
            }
            let innermost = open.last().map(|&(.., run)| runs[run].name);
            match changes.last_mut() {
                Some(last) if last.0 == at => last.1 = innermost,
                _ => changes.push((at, innermost)),
            }
        }
        Self { changes }
    }

    /// The distinct names of all regions that may contain allocations.
    pub(crate) fn names(&self) -> Vec<StringId> {
        let mut names: Vec<StringId> = self.changes.iter().filter_map(|&(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The innermost region of an allocation that begins at this moment.
    pub(crate) fn at(&self, moment: Moment) -> Option<StringId> {
        let after = self.changes.partition_point(|&(at, _)| at <= moment.index());
        self.changes[after.checked_sub(1)?].1
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use vramscope_analysis::{History, runs_between};
    use vramscope_trace::formats;

    use super::*;

    #[test]
    fn the_innermost_region_names_what_is_made_in_it() {
        let at = |name: &str, stage: &str, time_us: u64| json!({"name": name, "stage": stage, "time_us": time_us, "device": 0});
        let event =
            |n: u64| json!({"action": "alloc", "addr": n << 20, "size": 512, "stream": 0, "time_us": 10 * n});
        let snapshot = json!({
            "segments": [],
            "device_traces": [(0..8).map(event).collect::<Vec<_>>()],
            // Events 1 to 6 are in the first region, 2 to 3 in the second, and 3 to 4 in one that overlaps the second.
            "external_annotations": [at("outer", "START", 5), at("inner", "START", 15), at("over", "START", 25), at("inner", "END", 35),
                at("over", "END", 45), at("outer", "END", 65)],
        });
        let recording = formats::read(snapshot.to_string().as_bytes()).unwrap();
        let trace = Arc::new(recording.trace);
        let history = History::of(&trace, 0);
        let regions = RegionsAt::of(&runs_between(&history));
        let name = |event| regions.at(Moment::after(event)).map(|name| trace.strings.get(name));
        let named: Vec<_> = (0..8).map(|event| name(event).unwrap_or("-")).collect();
        assert_eq!(named, ["-", "outer", "inner", "over", "over", "outer", "outer", "-"]);
        assert_eq!(regions.at(Moment::START), None);
    }
}
