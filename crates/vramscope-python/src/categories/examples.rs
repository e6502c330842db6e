//! Infers the categories of a step without hooks from a watched step.

use std::cmp::Reverse;
use std::ops::Range;

use super::allocation::Allocation;
use super::steps::Step;

/// Infers the categories of allocations in steps without hooks, as long as an example step allocates the same sizes in the same
/// order.
///
/// `step_of` has the step of each allocation, in time order. The first step may be truncated, because PyTorch's history drops
/// old events. The last step is still running.
pub(crate) fn tell(allocations: &mut [Allocation<'_>], step_of: &[Option<usize>], steps: &[Step]) {
    let parts = parts(step_of, steps.len());
    let first = parts.iter().position(|part| part.end > 0);
    let examples: Vec<(u64, &Range<usize>)> = steps
        .iter()
        .zip(&parts)
        .enumerate()
        .filter(|&(index, (step, part))| step.is_example && part.end > 0 && first != Some(index))
        .map(|(_, (step, part))| (step.signature, part))
        .collect();
    for (index, (step, part)) in steps.iter().zip(&parts).enumerate() {
        if step.is_watched {
            continue;
        }
        let is_cut = first == Some(index);
        let goes_on = index + 1 == steps.len();
        let best = examples
            .iter()
            .filter(|(signature, _)| *signature == step.signature)
            .map(|(_, example)| pairs(allocations, (part, is_cut, goes_on), example))
            .min_by_key(|pairs| {
                (Reverse(pairs.len()), pairs.iter().filter(|pair| !pair.lives_alike).count())
            });
        for pair in best.into_iter().flatten() {
            let Some((tag, made_in)) = allocations.get(pair.from).map(|from| (from.tag, from.made_in)) else {
                continue;
            };
            if let Some(allocation) = allocations.get_mut(pair.to) {
                allocation.made_in = made_in;
                if pair.lives_alike {
                    allocation.tag = allocation.tag.or(tag);
                } else {
                    allocation.is_in_doubt = true;
                }
            }
        }
    }
}

/// Two allocations of the same size, at the same position in two steps.
struct Pair {
    to: usize,
    from: usize,
    /// Both are freed at the same position in their steps, or outlive them.
    lives_alike: bool,
}

/// The allocations that a step shares with an example, counted from the beginning, or from the end for a truncated step.
fn pairs(
    allocations: &[Allocation<'_>],
    (part, is_cut, goes_on): (&Range<usize>, bool, bool),
    example: &Range<usize>,
) -> Vec<Pair> {
    let of_equal_size = |&(to, from): &(usize, usize)| {
        let size = |index: usize| allocations.get(index).map(|allocation| allocation.size);
        size(to) == size(from)
    };
    let numbers: Vec<(usize, usize)> = if is_cut {
        part.clone().rev().zip(example.clone().rev()).take_while(of_equal_size).collect()
    } else {
        part.clone().zip(example.clone()).take_while(of_equal_size).collect()
    };
    let lifetime = |index: usize, part: &Range<usize>| {
        let freed = allocations.get(index)?.freed_before?;
        (freed < part.end).then(|| freed - index)
    };
    let pair = |(to, from): (usize, usize)| {
        let (ours, theirs) = (lifetime(to, part), lifetime(from, example));
        let is_still_to_come = goes_on && theirs.is_some_and(|theirs| to + theirs >= part.end);
        Pair { to, from, lives_alike: ours == theirs || ours.is_none() && is_still_to_come }
    };
    numbers.into_iter().map(pair).collect()
}

/// The range of allocations of each step.
fn parts(step_of: &[Option<usize>], steps: usize) -> Vec<Range<usize>> {
    let mut parts = vec![0..0; steps];
    for (index, step) in step_of.iter().enumerate() {
        if let Some(part) = step.and_then(|step| parts.get_mut(step)) {
            *part = if part.end == 0 { index..index + 1 } else { part.start..index + 1 };
        }
    }
    parts
}
