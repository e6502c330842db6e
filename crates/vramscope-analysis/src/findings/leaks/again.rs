//! Memory of an earlier run that is still live while the program makes the same allocations again, such as a cell of a notebook that
//! runs twice while a variable keeps the first model.

use std::cmp::Reverse;
use std::ops::Range;

use hashbrown::{HashMap, HashSet};
use vramscope_trace::{FrameId, StackId};

use super::growth::Growth;
use super::loops::Calls;
use crate::history::{History, Moment};
use crate::stacks::Frames;

/// The second run begins after this share of all allocations since the first one: one of this many parts.
const GAP_PARTS: u32 = 5;

/// The fewest allocations from the first run to the second.
const FEWEST_BETWEEN: u32 = 16;

/// The first run must have left one of this many parts of the live bytes.
const LEFT_PARTS: u64 = 5;

/// A live block: the number of its allocation, its requested bytes, and the bytes of the block.
type Live = (u32, u64, u64);

/// Returns the stacks that made the same blocks in two runs that are both live at `end`; empty if the first run left little.
/// Both runs may be called from different lines.
pub(super) fn stacks_of_two_runs(
    history: &History,
    frames: &Frames,
    growth: &Growth,
    end: Moment,
) -> Vec<StackId> {
    // The frames of a stack up to the line of the user's code: the callers of that line may differ.
    let line_of = |stack| {
        let all = history.trace().stacks.get(stack);
        let own = frames.own_frame(history.trace(), stack);
        &all[..all.iter().position(|&frame| Some(frame) == own).map_or(all.len(), |at| at + 1)]
    };
    // By line, with the first of its stacks.
    let mut live: HashMap<&[FrameId], (StackId, Vec<Live>)> = HashMap::new();
    let mut all = 0;
    for (number, a) in history.recorded().enumerate() {
        if a.from <= end && a.to > end {
            all += a.size;
            if let Some(stack) = history.stack_of(a) {
                let of_line = live.entry(line_of(stack)).or_insert_with(|| (stack, Vec::new()));
                of_line.1.push((number as u32, a.requested, a.size));
            }
        }
    }
    let least_gap = growth.allocations / GAP_PARTS;
    let of_line = |(line, (stack, blocks)): (_, (StackId, Vec<Live>))| {
        let (bytes, between) = left_by_first_run(&blocks, least_gap)?;
        Some((Reverse(bytes), stack, line, between))
    };
    let mut again: Vec<_> = live.into_iter().filter_map(of_line).collect();
    again.sort_unstable_by_key(|&(bytes, stack, ..)| (bytes, stack));
    again.truncate(growth.most_examined(end));
    let calls = Calls { trace: history.trace(), frames, seen: &growth.seen };
    again.retain(|(_, stack, _, between)| calls.is_interrupted(*stack, between.clone()));
    if again.iter().map(|(Reverse(bytes), ..)| bytes).sum::<u64>() < all / LEFT_PARTS {
        return Vec::new();
    }
    let lines: HashSet<&[FrameId]> = again.into_iter().map(|(_, _, line, _)| line).collect();
    let stacks = growth.courses.iter().map(|&(stack, _)| stack);
    let mut stacks: Vec<StackId> = stacks.filter(|&stack| lines.contains(line_of(stack))).collect();
    stacks.sort_unstable();
    stacks
}

/// Returns the bytes of the first of two runs, and the allocations between them; `None` if these are not two runs, or the second does not
/// make what the first made.
fn left_by_first_run(blocks: &[Live], least_gap: u32) -> Option<(u64, Range<u32>)> {
    let gap = |(i, pair): (usize, &[Live; 2])| (pair[1].0 - pair[0].0, i + 1);
    let (gap, second) = blocks.array_windows().enumerate().map(gap).max()?;
    let (first, again) = blocks.split_at(second);
    let is_same = again.len() <= first.len() && first.iter().zip(again).all(|(a, b)| a.1 == b.1);
    let (last, next) = (first.last()?.0, again.first()?.0);
    let bytes = first.iter().map(|&(_, _, size)| size).sum();
    let is_apart = gap >= least_gap.max(FEWEST_BETWEEN) && gap as usize > blocks.len();
    (is_apart && is_same).then_some((bytes, last + 1..next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_run_makes_the_first_blocks_of_the_first_one() {
        let blocks =
            |sizes: &[(u32, u64)]| sizes.iter().map(|&(n, size)| (n, size, size)).collect::<Vec<_>>();
        assert_eq!(left_by_first_run(&blocks(&[(0, 8), (1, 4), (50, 8)]), 20), Some((12, 2..50)));
        assert_eq!(left_by_first_run(&blocks(&[(0, 8), (1, 4), (50, 4)]), 20), None);
        assert_eq!(left_by_first_run(&blocks(&[(0, 8), (50, 8), (51, 8)]), 20), None);
        assert_eq!(left_by_first_run(&blocks(&[(0, 8), (5, 8)]), 20), None);
        assert_eq!(left_by_first_run(&blocks(&[(0, 8)]), 20), None);
    }
}
