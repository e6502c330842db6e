//! Infers phases from stacks.

use hashbrown::HashMap;
use vramscope_trace::{StackId, StringId, Trace};

use super::run::{Phase, Run, event};
use crate::categories::signs::{Runs, Signs};
use crate::history::History;

/// Returns the phase runs that the stacks of all allocations show; empty if no stack shows a phase.
pub(super) fn runs(history: &History, signs: &Signs) -> Vec<Run> {
    let trace = history.trace();
    let main = main_root(trace, signs);
    let is_on_another_thread = |stack: Option<StackId>| {
        let root = stack.and_then(|s| root(trace, s));
        root.is_some() && main.is_some() && root != main
    };
    let mut runs: Vec<Run> = Vec::new();
    let mut phase = Phase::Between;
    let mut are_known = false;
    // Whether the program's own code ran after the last module.
    let mut left_modules = false;
    for a in history.recorded() {
        let has_stack = history.stack_of(a).is_some();
        // Hooks run on the thread of the backward pass and belong to it.
        let is_in_pass = phase.is_backward() || runs.last().is_some_and(|r| r.is_hook);
        let is_hook = is_in_pass && has_stack && is_on_another_thread(a.stack);
        let next = match (signs.get(a.stack).runs, phase) {
            (Some(Runs::Forward), _) => Phase::Forward,
            (Some(Runs::Recompute), _) => Phase::Recompute,
            (Some(Runs::Backward), _) => Phase::Backward,
            (Some(Runs::Optimizer), _) => Phase::Optimizer,
            (Some(Runs::Setup), _) => Phase::Setup,
            // Programs often compute the loss in their own code, after the modules.
            (None, Phase::Forward) if has_stack => Phase::Forward,
            (None, _) if is_hook => phase,
            (None, _) if has_stack => Phase::Between,
            // The thread of the backward pass has no Python frames, and other threads without them are rare.
            (None, Phase::Setup) => Phase::Setup,
            (None, Phase::Recompute | Phase::Backward | Phase::Forward | Phase::Between) => Phase::Backward,
            (None, Phase::Optimizer) if is_in_pass => Phase::Backward,
            (None, Phase::Optimizer) => Phase::Optimizer,
        };
        let told = signs.get(a.stack).runs.is_some();
        are_known |= told;
        let is_another_pass = told && next == Phase::Forward && left_modules;
        left_modules = !told;
        match runs.last_mut() {
            Some(run) if run.phase == next && !is_another_pass => run.last = event(a),
            _ => {
                let is_hook = is_hook && next == Phase::Optimizer;
                runs.push(Run { phase: next, from: event(a), last: event(a), is_hook });
            }
        }
        phase = next;
    }
    if are_known { runs } else { Vec::new() }
}

/// Returns the outermost function of a stack, with its file, if it is in Python. If C++ frames are recorded too, frames of
/// autograd's engine identify the thread.
fn root(trace: &Trace, stack: StackId) -> Option<(StringId, StringId)> {
    let frame = trace.frames.get(*trace.stacks.get(stack).last()?);
    trace.strings.get(frame.filename).ends_with(".py").then_some((frame.filename, frame.name))
}

/// Returns the most common outermost function of stacks outside backward passes: the start of the program's main thread.
fn main_root(trace: &Trace, signs: &Signs) -> Option<(StringId, StringId)> {
    let mut roots: HashMap<(StringId, StringId), usize> = HashMap::new();
    for (id, _) in trace.stacks.iter() {
        if !matches!(signs.get(Some(id)).runs, Some(Runs::Backward | Runs::Recompute))
            && let Some(root) = root(trace, id)
        {
            *roots.entry(root).or_default() += 1;
        }
    }
    roots.into_iter().max_by_key(|&(root, stacks)| (stacks, root)).map(|(root, _)| root)
}
