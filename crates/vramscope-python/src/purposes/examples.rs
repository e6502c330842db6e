//! What a step without hooks allocates, told by a step that was watched.

use std::cmp::Reverse;
use std::ops::Range;

use super::allocation::Allocation;
use super::steps::Step;

/// Tells what the allocations of steps without hooks are for, as far as an example allocates the same in the same order.
///
/// `step_of` has the step of each allocation, in the order of time. The first of the steps may be cut off, for PyTorch's
/// history drops what is old, and the last one goes on.
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

/// Two allocations of the same size at the same place of two steps.
struct Pair {
    to: usize,
    from: usize,
    /// Both are freed at the same place of their steps, or outlive them.
    lives_alike: bool,
}

/// The allocations that a step has in common with an example: from its beginning, or from its end where it is cut.
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

/// Which allocations each step has.
fn parts(step_of: &[Option<usize>], steps: usize) -> Vec<Range<usize>> {
    let mut parts = vec![0..0; steps];
    for (index, step) in step_of.iter().enumerate() {
        if let Some(part) = step.and_then(|step| parts.get_mut(step)) {
            *part = if part.end == 0 { index..index + 1 } else { part.start..index + 1 };
        }
    }
    parts
}
