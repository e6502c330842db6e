//! Lines that pin free memory, compared with a count cell by cell.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use vramscope_analysis::{Frames, History, HolderKey, Layout, Pins};

use crate::{defaults, recording};

const CELL: u64 = 512;
const BASE: u64 = 1 << 30;

/// The blocks and free runs of a segment, as (number of cells, line of the block).
type Runs = Vec<(u64, Option<u32>)>;

fn segments() -> impl Strategy<Value = Vec<Runs>> {
    let run = (1u64..5, proptest::option::weighted(0.6, 1u32..5));
    proptest::collection::vec(proptest::collection::vec(run, 1..12), 1..6)
}

fn start(number: usize) -> u64 {
    BASE + ((number as u64) << 21)
}

fn as_segment(number: usize, runs: &Runs) -> Value {
    let mut address = start(number);
    let mut blocks = Vec::new();
    for &(cells, line) in runs {
        let size = cells * CELL;
        if let Some(line) = line {
            let frames = json!([{"name": "step", "filename": "/home/user/train.py", "line": line}]);
            blocks.push(json!({"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": frames}));
        }
        address += size;
    }
    let size = address - start(number);
    json!({"device": 0, "address": start(number), "total_size": size, "stream": 0, "segment_type": "small", "blocks": blocks})
}

/// The pins of a line: bytes, holes, bytes in segments that only this line keeps, and the largest hole without it.
type Pinned = (u64, u64, u64, u64);

/// Counts cell by cell.
fn naive(segments: &[Runs]) -> (BTreeMap<u32, Pinned>, u64, u64) {
    let mut lines: BTreeMap<u32, Pinned> = BTreeMap::new();
    let (mut bytes, mut holes) = (0, 0);
    for runs in segments {
        let cells: Vec<Option<u32>> = runs.iter().flat_map(|&(n, line)| (0..n).map(move |_| line)).collect();
        let mut here: Vec<u32> = cells.iter().flatten().copied().collect();
        here.sort_unstable();
        here.dedup();
        // Runs of cells for which a condition holds.
        let all_runs = |wanted: &dyn Fn(Option<u32>) -> bool| {
            let mut found: Vec<(usize, usize)> = Vec::new();
            for (at, &cell) in cells.iter().enumerate() {
                match found.last_mut() {
                    Some((_, end)) if wanted(cell) && *end == at => *end += 1,
                    _ if wanted(cell) => found.push((at, at + 1)),
                    _ => {}
                }
            }
            found
        };
        for (from, to) in all_runs(&|cell| cell.is_none()) {
            let around = [from.checked_sub(1).and_then(|at| cells[at]), cells.get(to).copied().flatten()];
            let size = (to - from) as u64 * CELL;
            bytes += if here.is_empty() { 0 } else { size };
            holes += u64::from(!here.is_empty());
            for &line in here.iter().filter(|&&line| around.contains(&Some(line))) {
                let pinned = lines.entry(line).or_default();
                pinned.0 += size;
                pinned.1 += 1;
                pinned.2 += if here.len() == 1 { size } else { 0 };
            }
        }
        for &line in &here {
            for (from, to) in all_runs(&|cell| cell.is_none() || cell == Some(line)) {
                if cells[from..to].contains(&Some(line)) {
                    let pinned = lines.entry(line).or_default();
                    pinned.3 = pinned.3.max((to - from) as u64 * CELL);
                }
            }
        }
    }
    lines.retain(|_, pinned| pinned.0 > 0);
    (lines, bytes, holes)
}

proptest! {
    #[test]
    fn pinned_bytes_equal_a_count_by_cells(segments in segments()) {
        let written = segments.iter().enumerate().map(|(n, runs)| as_segment(n, runs)).collect();
        let trace = recording(Vec::new(), written, defaults());
        let history = History::of(&trace, 0);
        let pins = Pins::at(&history, &Frames::of(&trace), &Layout::at(&history, history.end()));
        let (lines, bytes, holes) = naive(&segments);
        prop_assert_eq!((pins.bytes, pins.holes), (bytes, holes));
        let line_of = |key: &HolderKey| match key {
            HolderKey::Line(frame) => trace.frames.get(*frame).line,
            _ => 0,
        };
        let told: BTreeMap<u32, Pinned> =
            pins.lines.iter().map(|p| (line_of(&p.key), (p.bytes, p.holes, p.alone, p.joined))).collect();
        prop_assert_eq!(told, lines);
        prop_assert!(pins.lines.is_sorted_by_key(|p| std::cmp::Reverse(p.bytes)));
    }
}

#[test]
fn a_hole_counts_once_for_each_line_and_a_free_segment_for_none() {
    let segments: Vec<Runs> = vec![
        vec![(2, Some(1)), (4, None), (2, Some(2)), (6, None), (1, Some(2)), (3, None)],
        vec![(9, None)],
    ];
    let written = segments.iter().enumerate().map(|(n, runs)| as_segment(n, runs)).collect();
    let trace = recording(Vec::new(), written, defaults());
    let history = History::of(&trace, 0);
    let pins = Pins::at(&history, &Frames::of(&trace), &Layout::at(&history, history.end()));
    assert_eq!((pins.bytes / CELL, pins.holes), (13, 3));
    let rows: Vec<_> = pins
        .lines
        .iter()
        .map(|p| (p.bytes / CELL, p.holes, p.joined / CELL, p.blocks, p.block_bytes / CELL))
        .collect();
    assert_eq!(rows, [(13, 3, 16, 2, 3), (4, 1, 6, 1, 2)]);
}
