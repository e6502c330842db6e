//! Changes to the lifetimes of gradients.

use hashbrown::HashMap;
use vramscope_trace::Category;

use super::program::{Item, Program};
use super::{NoEstimate, activations, optimizer};
use crate::categories::PassPhase;
use crate::history::Moment;

/// Batches of gradient accumulation.
const BATCHES: u64 = 2;

/// The gradients in the order of their allocation, each with the moment at which the next one begins.
fn with_next(program: &Program<'_>) -> Result<Vec<(usize, Item, Moment)>, NoEstimate> {
    let all: Vec<(usize, Item)> = program.gradients().map(|(at, item)| (at, *item)).collect();
    if all.is_empty() {
        return Err(NoEstimate::NoGradients);
    }
    let next = |at: usize| {
        // Many gradients are allocated before the last one is complete: a layer has several parameters.
        let backward = program.next_pass(PassPhase::Backward, all[at].1.from);
        let end = backward.map_or(Moment::NEVER, |pass| pass.to);
        all.get(at + 1).map_or(end, |(_, item)| item.from.min(end))
    };
    Ok((0..all.len()).map(|at| (all[at].0, all[at].1, next(at))).collect())
}

/// The peak with an optimizer in the backward pass: a gradient lives until the next one, and the optimizer has a temporary for it.
pub(super) fn in_backward(program: &Program<'_>) -> Result<u64, NoEstimate> {
    let gradients = with_next(program)?;
    let mut changed = optimizer::without_temporaries(program);
    // The parts of a gradient that two modules share are added when both are known.
    let mut twins: HashMap<u64, Vec<Moment>> = HashMap::new();
    let shared = |item: &&Item| {
        item.phase == PassPhase::Backward
            && item.category != Category::Gradient
            && program.gradient_sizes.contains(&item.size)
    };
    for item in program.items.iter().filter(shared) {
        twins.entry(item.size).or_default().push(item.from);
    }
    for (at, item, next) in gradients {
        let Some(pass) = program.next_pass(PassPhase::Backward, item.from).copied() else { continue };
        let is_in_pass = |moment: &&Moment| item.from < **moment && **moment < pass.to;
        let twin = twins.get(&item.size).and_then(|all| all.iter().rfind(is_in_pass));
        // Gradients of small parameters arrive in between.
        let to = twin.copied().unwrap_or(next).max(next);
        changed.cut(at, to.min(item.to));
        changed.add(item.from, next, item.size);
    }
    Ok(changed.peak())
}

/// The peak with gradient accumulation over two half batches: gradients are live in forward passes, and each new gradient is added to
/// the one before.
pub(super) fn accumulated(program: &Program<'_>) -> Result<u64, NoEstimate> {
    let gradients = with_next(program)?;
    let mut changed = activations::part_of_batch(program, BATCHES)?;
    for (_, item, next) in gradients {
        let before = |pass: &&super::program::Pass| pass.from <= item.from;
        let forward = program.passes_of(PassPhase::Forward).rfind(before);
        let Some(step) = forward.map(|pass| first_of_step(program, pass.from)) else { continue };
        changed.add(step, item.from, item.size);
        changed.add(item.from, next, item.size);
    }
    Ok(changed.peak())
}

/// The first moment of the forward passes and the program's own code that lead to a forward pass.
fn first_of_step(program: &Program<'_>, forward: Moment) -> Moment {
    let before = program.passes.iter().rev().filter(|pass| pass.from <= forward);
    let of_step = before.take_while(|pass| matches!(pass.phase, PassPhase::Forward | PassPhase::Between));
    of_step.last().map_or(forward, |pass| pass.from)
}

/// The peak if gradients are freed after each optimizer step, and allocated again by the next backward pass.
pub(super) fn to_none(program: &Program<'_>) -> Result<u64, NoEstimate> {
    if program.gradients().next().is_none() {
        return Err(NoEstimate::NoGradients);
    }
    let mut changed = program.changed();
    for (at, item) in program.gradients() {
        let Some(own) = program.next_pass(PassPhase::Backward, item.from) else { continue };
        // The position in its backward pass.
        let length = |from: Moment, to: Moment| to.index().saturating_sub(from.index()).max(1) as f64;
        let part = length(own.from, item.from) / length(own.from, own.to).max(length(own.from, item.from));
        let mut from = item.from;
        let steps = program.passes_of(PassPhase::Optimizer).filter(|pass| pass.from > item.from);
        for step in steps {
            if step.to >= item.to {
                break;
            }
            if changed.sizes[at] > 0 {
                changed.cut(at, step.to);
            } else {
                changed.add(from, step.to, item.size);
            }
            let Some(next) = program.next_pass(PassPhase::Backward, step.to) else {
                from = Moment::NEVER;
                break;
            };
            let offset = (length(next.from, next.to.min(program.history.end())) * part) as usize;
            from = Moment::from_index(next.from.index() + offset);
        }
        if changed.sizes[at] == 0 {
            changed.add(from, item.to, item.size);
        }
    }
    Ok(changed.peak())
}
