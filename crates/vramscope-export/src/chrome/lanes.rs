//! Assigns regions to lanes. Viewers require that slices of one thread nest, but regions of several threads may overlap. Within a lane,
//! regions nest.

use vramscope_analysis::RegionRun;

/// Limit on the number of lanes. Assigning a region takes time proportional to it, and viewers show each lane as a thread.
pub(super) const LANES: usize = 64;

/// Returns the runs of regions, each with the index of its lane. Sorted by start time; of runs with the same start, longer ones first.
/// `None` if no lane has room for the run.
pub(super) fn place(mut runs: Vec<RegionRun>) -> Vec<(Option<usize>, RegionRun)> {
    runs.sort_by_key(|r| (r.start_us, std::cmp::Reverse(r.end_us)));
    // For each lane, the ends of the open runs, innermost last.
    let mut lanes: Vec<Vec<i64>> = Vec::new();
    let mut placed = Vec::with_capacity(runs.len());
    for run in runs {
        let mut free = None;
        for (i, open) in lanes.iter_mut().enumerate() {
            while open.last().is_some_and(|&end| end <= run.start_us) {
                open.pop();
            }
            if open.last().is_none_or(|&end| run.end_us <= end) {
                free = Some(i);
                break;
            }
        }
        if free.is_none() && lanes.len() < LANES {
            free = Some(lanes.len());
            lanes.push(Vec::new());
        }
        if let Some(lane) = free {
            lanes[lane].push(run.end_us);
        }
        placed.push((free, run));
    }
    placed
}

#[cfg(test)]
mod tests {
    use vramscope_trace::StringTable;

    use super::*;

    #[test]
    fn runs_that_do_not_nest_have_separate_lanes() {
        let name = StringTable::default().intern("step").unwrap();
        let runs = [(0, 10), (2, 5), (5, 9), (8, 12), (12, 13), (12, 12)];
        let runs = runs.map(|(start_us, end_us)| RegionRun { name, depth: 0, start_us, end_us });
        let placed: Vec<(usize, i64, i64)> =
            place(runs.to_vec()).iter().map(|(lane, r)| (lane.unwrap(), r.start_us, r.end_us)).collect();
        assert_eq!(placed, [(0, 0, 10), (0, 2, 5), (0, 5, 9), (1, 8, 12), (0, 12, 13), (0, 12, 12)]);
    }

    #[test]
    fn the_number_of_lanes_is_limited() {
        let name = StringTable::default().intern("step").unwrap();
        // Each run overlaps the previous one without nesting in it.
        let runs = (0..1000).map(|i| RegionRun { name, depth: 0, start_us: i, end_us: 1000 + i });
        let placed: Vec<Option<usize>> = place(runs.collect()).into_iter().map(|(lane, _)| lane).collect();
        let expected = (0..1000).map(|i| (i < LANES).then_some(i));
        assert_eq!(placed, expected.collect::<Vec<_>>());
    }
}
