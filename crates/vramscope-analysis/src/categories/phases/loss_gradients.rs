//! Infers the phases of a recording without stacks from the gradients of losses.
//!
//! A backward pass begins with the gradient of the loss, a scalar that autograd allocates for the whole pass (`_make_grads`,
//! `torch/autograd/__init__.py`, PyTorch 2.11). While it is allocated, the pass frees the memory that the forward pass retained, in the
//! opposite order. No other scalar has such a lifetime: the loss itself is allocated before it, and freed later. If the forward pass retains
//! too few tensors to show an order, the pass is recognized by its gradients, which have the sizes of the parameters.
//!
//! ```text
//!   loss              ├───────────────────────┤
//!   its gradient        ├───────────┤
//!   retained       ├────────────┤
//!   retained          ├─────┤
//!   gradients                 ├───────────────┤
//! ```

use hashbrown::HashMap;

use super::parameters::{ParameterSizes, SCALAR};
use super::run::{NEVER, Phase, Run, event, event_before, is_as_large_as_a_workspace, is_lt_workspace};
use crate::history::{History, RecordedAllocation};

/// The fewest tensors that a backward pass frees in the opposite order. A single pass needs [`FEWEST_ALONE`].
const FEWEST: usize = 3;

/// See [`FEWEST`].
const FEWEST_ALONE: usize = 4;

/// At least this share of the frees must be in the opposite order of the allocations. A node of the backward pass may free several tensors
/// in the order of their allocations, so frees are compared that are up to [`APART`] frees apart.
const OPPOSITE: f64 = 0.8;

/// See [`OPPOSITE`].
const APART: usize = 8;

/// Two scalars belong to the same backward pass if one has at least this share of the other's frees in the opposite order.
const SAME_PASS: f64 = 0.7;

/// A pass with less than this share of the frees of the largest one is none: an evaluation frees a few tensors in the opposite order too.
const SMALLEST: f64 = 1.0 / 3.0;

/// A scalar that lives for this many times as many frees as the best one so far, and for more than [`ALWAYS_EXAMINED`], is not examined.
const MUCH_LONGER: usize = 16;

/// See [`MUCH_LONGER`].
const ALWAYS_EXAMINED: usize = 4096;

/// The frees in the lifetimes of scalars are examined up to this many times the length of the recording; beyond it, no pass is known.
const EXAMINED: usize = 64;

/// Returns the phase runs that the gradients of losses show; empty if there are none.
pub(super) fn runs(history: &History) -> Vec<Run> {
    let all: Vec<&RecordedAllocation> = history.recorded().collect();
    let mut passes = passes(Recorded::of(&all, None));
    if passes.is_empty() {
        let parameters = parameters(history, &all);
        passes = self::passes(Recorded::of(&all, Some(parameters)));
    }
    let Some(first) = passes.first() else { return Vec::new() };
    let begins = setup(&all, &passes, first);
    let mut runs = Vec::new();
    let mut push = |phase, from: usize, to: usize, end: u32| {
        if let (Some(first), Some(last)) = (all.get(from), all[from..to].last()) {
            runs.push(Run { phase, from: event(first), last: event(last).max(end), is_hook: false });
        }
    };
    push(Phase::Setup, 0, begins, 0);
    let (mut forward, mut gradients) = (begins, Vec::new());
    let last = all.last().map(|a| event(a)).into_iter().chain(passes.iter().map(|pass| pass.end)).max();
    let outlives = |a: &&&RecordedAllocation| last.is_some_and(|last| event_before(a.freed) >= last);
    for (number, pass) in passes.iter().enumerate() {
        let after = all.partition_point(|a| event(a) < pass.end);
        push(Phase::Forward, forward, pass.first, 0);
        push(Phase::Backward, pass.first, after, if pass.end == NEVER { 0 } else { pass.end });
        let until = passes.get(number + 1).map_or(all.len(), |next| next.first);
        gradients.retain(|a: &&RecordedAllocation| event_before(a.freed) > pass.end);
        let kept = gradients.len();
        gradients.extend(all[pass.first..after].iter().filter(|a| event_before(a.freed) > pass.end));
        // If several optimizers take turns, each one updates from the gradients of its own pass.
        let steps = [&gradients[..], &gradients[kept..]].map(|of| optimizer(&all[after..until], of));
        let states = all[after..until].iter().take_while(outlives).count();
        let states = if states * 2 > gradients.len() { states } else { 0 };
        forward = after + states.max(steps.into_iter().find(|&step| step > 0).unwrap_or(0));
        push(Phase::Optimizer, after, forward, 0);
    }
    push(Phase::Forward, forward, all.len(), 0);
    runs
}

/// A scalar's lifetime that may be a backward pass.
#[derive(Debug, Clone, Copy)]
struct Pass {
    /// The number of the scalar among the allocations.
    first: usize,
    /// The event of its allocation.
    from: u32,
    /// The event of its free.
    end: u32,
    /// The most tensors that are freed in it one after the other in the opposite order of their allocations.
    retained: usize,
}

/// The allocations of a recording, and their frees in order.
struct Recorded<'h> {
    all: &'h [&'h RecordedAllocation],
    /// The events of the frees.
    frees: Vec<u32>,
    /// The numbers of the freed allocations.
    freed: Vec<usize>,
    /// The number of frees that may still be examined; `None` if there were too many.
    left: Option<usize>,
    /// If a pass is recognized by its gradients rather than by the order of its frees: the sizes of the parameters.
    parameters: Option<ParameterSizes>,
}

impl<'h> Recorded<'h> {
    fn of(all: &'h [&'h RecordedAllocation], parameters: Option<ParameterSizes>) -> Self {
        let mut frees: Vec<(u32, usize)> =
            all.iter().enumerate().map(|(number, a)| (event_before(a.freed), number)).collect();
        frees.retain(|&(event, _)| event != NEVER);
        frees.sort_unstable();
        let left = Some((frees.len() + ALWAYS_EXAMINED).saturating_mul(EXAMINED));
        let (frees, freed) = frees.into_iter().unzip();
        Self { all, frees, freed, left, parameters }
    }

    /// Returns the frees within the lifetime of a scalar, as positions.
    fn within(&self, scalar: usize) -> std::ops::Range<usize> {
        let (from, mut end) = (event(self.all[scalar]), event_before(self.all[scalar].freed));
        if self.parameters.is_some() {
            // As the program ends, it frees more than a pass.
            end = end.min(self.all.last().map_or(NEVER, |a| event(a)));
        }
        let start = self.frees.partition_point(|&free| free <= from);
        start..self.frees.partition_point(|&free| free < end).max(start)
    }

    /// The fewest tensors that a backward pass frees in the opposite order.
    fn fewest(&self) -> usize {
        if self.parameters.is_some() { 1 } else { FEWEST }
    }

    /// Returns the lifetime of a scalar if tensors are freed within it as in a backward pass. Only tensors count whose numbers are in
    /// `older`.
    fn pass(&mut self, scalar: usize, older: std::ops::Range<usize>) -> Option<Pass> {
        let within = self.within(scalar);
        self.left = self.left.and_then(|left| left.checked_sub(within.len()));
        self.left?;
        let all = self.all;
        let is_parameter = |size| self.parameters.as_ref().is_some_and(|sizes| sizes.contains(size));
        let is_older = |&number: &usize| {
            let size = all[number].requested;
            older.contains(&number) && size > SCALAR && !is_parameter(size)
        };
        let retained: Vec<usize> = self.freed[within].iter().copied().filter(is_older).collect();
        let apart = APART.min(retained.len() / 2);
        let pairs = retained.iter().zip(&retained[apart..]);
        let opposite = pairs.filter(|(before, after)| after < before).count();
        let longest = longest_falling(&retained);
        let (from, end) = (event(all[scalar]), event_before(all[scalar].freed));
        let allocations = all.partition_point(|a| event(a) < end) - scalar - 1;
        let is_pass = match &self.parameters {
            Some(parameters) => {
                longest >= self.fewest() && parameters.have_gradients_in(&all[scalar + 1..][..allocations])
            }
            None => {
                longest + 1 >= self.fewest()
                    && opposite as f64 >= (retained.len() - apart) as f64 * OPPOSITE
                    && allocations >= longest
            }
        };
        is_pass.then_some(Pass { first: scalar, from, end, retained: longest })
    }
}

/// Returns the length of the longest falling sequence within `numbers`, by patience sorting.
fn longest_falling(numbers: &[usize]) -> usize {
    // The largest last number of the falling sequences of each length.
    let mut last: Vec<usize> = Vec::new();
    for &number in numbers {
        let at = last.partition_point(|&l| l > number);
        match last.get_mut(at) {
            Some(slot) => *slot = number,
            None => last.push(number),
        }
    }
    last.len()
}

/// Returns the backward passes in order.
fn passes(mut recorded: Recorded<'_>) -> Vec<Pass> {
    let all = recorded.all;
    let scalars: Vec<usize> = (0..all.len()).filter(|&number| all[number].requested <= SCALAR).collect();
    let mut by_end = scalars.clone();
    by_end.sort_by_key(|&number| (event_before(all[number].freed), number));
    let mut passes: Vec<Pass> = Vec::new();
    // Tensors count from the end of the pass before. Gradients of earlier passes are also freed in the opposite order.
    let mut since = 0;
    let mut at = 0;
    while let Some(&scalar) = by_end.get(at) {
        let first = if scalar < since { None } else { recorded.pass(scalar, since..scalar) };
        let Some(first) = first.filter(|pass| pass.retained >= recorded.fewest()) else {
            at += 1;
            continue;
        };
        let pass = best(&mut recorded, &scalars, first, since);
        passes.push(pass);
        if pass.end == NEVER {
            break;
        }
        since = all.partition_point(|a| event(a) < pass.end);
    }
    let most = passes.iter().map(|pass| pass.retained).max().unwrap_or(0);
    passes.retain(|pass| pass.retained as f64 >= most as f64 * SMALLEST);
    let are_shown = recorded.left.is_some() && (passes.len() > 1 || most >= FEWEST_ALONE);
    if are_shown { passes } else { Vec::new() }
}

/// Of the scalars that live at the same time as that of `first`, returns the one that lives for a backward pass and not longer: the shortest
/// with nearly the most tensors that are freed in the opposite order. Of a scalar that the pass itself allocates, only tensors count that
/// are older than the pass.
fn best(recorded: &mut Recorded<'_>, scalars: &[usize], first: Pass, since: usize) -> Pass {
    let all = recorded.all;
    let from = scalars.partition_point(|&scalar| scalar < since);
    let to = scalars.partition_point(|&scalar| event(all[scalar]) < first.end);
    let mut near: Vec<(usize, usize)> = scalars[from..to]
        .iter()
        .filter(|&&scalar| event_before(all[scalar].freed) > first.from)
        .map(|&scalar| (recorded.within(scalar).len(), scalar))
        .collect();
    near.sort_unstable();
    let mut most = (first, recorded.within(first.first).len());
    let mut found = Vec::new();
    for (frees, scalar) in near {
        if frees > ALWAYS_EXAMINED.max(most.1.saturating_mul(MUCH_LONGER)) {
            break;
        }
        let Some(pass) = recorded.pass(scalar, since..scalar) else { continue };
        if pass.retained > most.0.retained {
            most = (pass, frees);
        }
        found.push(pass);
    }
    if recorded.parameters.is_some() {
        return found.first().copied().unwrap_or(first);
    }
    // From the shortest.
    let most = most.0;
    for pass in found {
        if pass.from >= most.end || most.from >= pass.end {
            continue;
        }
        let retained = if pass.first > most.first {
            recorded.pass(pass.first, since..most.first).map_or(0, |pass| pass.retained)
        } else {
            pass.retained
        };
        if retained as f64 >= most.retained as f64 * SAME_PASS {
            return pass;
        }
    }
    most
}

/// Returns the sizes of the tensors that may be parameters: those that outlive the recording, and are older than all scalars that do not.
fn parameters(history: &History, all: &[&RecordedAllocation]) -> ParameterSizes {
    let last = all.last().map_or(NEVER, |a| event(a));
    let outlives = |a: &&RecordedAllocation| event_before(a.freed) > last;
    let passing = all.iter().position(|a| a.requested <= SCALAR && !outlives(a)).unwrap_or(all.len());
    let recorded = all[..passing].iter().copied().filter(outlives);
    ParameterSizes::of(history.allocations.iter().filter(|a| a.is_preexisting()).chain(recorded))
}

/// Returns the number of allocations of the setup. The setup ends before the first tensor that a backward pass frees. It also ends after the
/// last tensor that outlives all passes, except workspaces: these are allocated by the first operations.
fn setup(all: &[&RecordedAllocation], passes: &[Pass], first: &Pass) -> usize {
    let is_retained = |a: &&RecordedAllocation| (first.from..first.end).contains(&event_before(a.freed));
    let before = all[..first.first].iter().position(is_retained).unwrap_or(first.first);
    let end = passes.last().map_or(NEVER, |last| last.end);
    let is_workspace = |number: usize| {
        let before = number.checked_sub(1).map(|before| all[before]);
        is_as_large_as_a_workspace(all[number]) || is_lt_workspace(all[number], before)
    };
    let is_kept = |&number: &usize| event_before(all[number].freed) >= end && !is_workspace(number);
    (0..before).rev().find(is_kept).map_or(before, |last| last + 1)
}

/// Returns the number of allocations after a backward pass that belong to the optimizer step; `gradients` are the live gradients.
///
/// An optimizer allocates for each parameter: states in its first step, and lists of temporaries. So each size occurs as often as among
/// the gradients, or a multiple of it. Its step ends before most gradients are freed.
fn optimizer(after: &[&RecordedAllocation], gradients: &[&RecordedAllocation]) -> usize {
    let mut sizes: HashMap<u64, usize> = HashMap::new();
    for gradient in gradients.iter().filter(|a| a.requested > SCALAR && !is_as_large_as_a_workspace(a)) {
        *sizes.entry(gradient.requested).or_default() += 1;
    }
    let parameters: usize = sizes.values().sum();
    // A list of norms has a scalar for each gradient.
    let small = SCALAR * (gradients.len() as u64 + 1);
    let mut freed: Vec<(u32, u64)> = gradients.iter().map(|a| (event_before(a.freed), a.size)).collect();
    freed.sort_unstable();
    let half = freed.iter().map(|f| f.1).sum::<u64>() / 2;
    let mut sum = 0;
    let zeroed = freed.iter().find(|(_, size)| {
        sum += size;
        sum > half
    });
    let zeroed = zeroed.map_or(NEVER, |f| f.0);
    let mut lists =
        Lists { sizes, parameters, made: HashMap::new(), count: 0, rounds: 1, difference: parameters };
    let (mut end, mut least) = (0, f64::INFINITY);
    for (number, a) in after.iter().enumerate() {
        if event(a) > zeroed {
            break;
        }
        if lists.add(a.requested) {
            let difference = lists.difference as f64 / lists.rounds as f64;
            if lists.difference <= lists.rounds * (parameters / DIFFERENT) && difference <= least {
                (end, least) = (number + 1, difference);
            }
        } else if a.requested > small && !is_freed_by(a, after.get(number + gradients.len() + SOON)) {
            break;
        }
    }
    // A list may end with scalars, those of parameters with one element.
    let scalars = after[end..].iter().take_while(|a| a.requested <= SCALAR).count();
    if end > 0 { end + scalars } else { 0 }
}

/// Lists of tensors of an optimizer, with one tensor for each gradient.
struct Lists {
    /// The number of gradients of each size.
    sizes: HashMap<u64, usize>,
    parameters: usize,
    /// The number of tensors of each size so far, and of all of them.
    made: HashMap<u64, usize>,
    count: usize,
    /// The number of lists so far, rounded.
    rounds: usize,
    /// The number of tensors that these lists have too few or too many.
    difference: usize,
}

impl Lists {
    /// Adds a tensor, unless no gradient has its size. Masters and states may have twice the bytes of the gradients.
    fn add(&mut self, requested: u64) -> bool {
        let size = [requested, requested / 2].into_iter().find(|size| self.sizes.contains_key(size));
        let Some(size) = size else { return false };
        let made = self.made.entry(size).or_default();
        let wanted = self.sizes.get(&size).map_or(0, |n| n * self.rounds);
        self.difference = self.difference + (*made + 1).abs_diff(wanted) - made.abs_diff(wanted);
        *made += 1;
        self.count += 1;
        let rounds = ((self.count + self.parameters / 2) / self.parameters).max(1);
        if rounds != self.rounds {
            self.rounds = rounds;
            let made = |size| self.made.get(size).copied().unwrap_or(0);
            self.difference = self.sizes.iter().map(|(size, n)| made(size).abs_diff(n * rounds)).sum();
        }
        true
    }
}

/// One in this many parameters may have a gradient of another size, such as a view of a larger tensor.
const DIFFERENT: usize = 4;

/// Whether `a` is freed before `later` is allocated; if there is none, whether it is freed at all.
fn is_freed_by(a: &RecordedAllocation, later: Option<&&RecordedAllocation>) -> bool {
    event_before(a.freed) < later.map_or(NEVER, |later| event(later))
}

/// The number of allocations beyond one for each gradient after which a buffer of the optimizer step is freed.
const SOON: usize = 16;
