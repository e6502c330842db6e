//! Changes to the optimizer.

use vramscope_trace::Category;

use super::NoEstimate;
use super::program::{Item, Program};
use crate::categories::PassPhase;

/// The optimizers with `fused=True` (`torch/optim`, PyTorch 2.11).
const FUSED: [&str; 4] = ["adagrad", "adam", "adamw", "sgd"];

/// bitsandbytes keeps the state of smaller parameters in 32 bits: 4096 elements (`min_8bit_size`, bitsandbytes 0.50).
const LEAST_IN_8_BITS: u64 = 4096 * 4;

/// Elements with one scale of 4 bytes (`blocksize` of `create_dynamic_map` states, bitsandbytes 0.50).
const ELEMENTS_PER_SCALE: u64 = 256;

/// The temporaries of the largest parameter that Adam has at one time without `foreach`: the square root, and its quotient.
const TEMPORARIES: u64 = 2;

/// Whether an item is freed before its optimizer step ends. Then it does not belong to the optimizer's state.
fn is_temporary(program: &Program<'_>, item: &Item) -> bool {
    item.phase == PassPhase::Optimizer
        && item.category != Category::OptimizerState
        && program.next_pass(PassPhase::Optimizer, item.from).is_some_and(|pass| item.to <= pass.to)
}

/// Whether the stack of an item has a function of PyTorch's optimizers whose name begins so.
fn is_in(program: &Program<'_>, item: &Item, start: &str) -> bool {
    item.stack.is_some_and(|stack| {
        program.frames_of(stack).any(|(file, function)| file.contains("optim") && function.starts_with(start))
    })
}

fn name<'p>(program: &'p Program<'_>) -> Result<&'p str, NoEstimate> {
    program.needs_stacks()?;
    program.optimizer.as_deref().ok_or(NoEstimate::NoOptimizer)
}

/// The peak with `fused=True`: the optimizer step has no temporaries.
pub(super) fn fused(program: &Program<'_>) -> Result<u64, NoEstimate> {
    if !FUSED.contains(&name(program)?) {
        return Err(NoEstimate::NoFusedForm);
    }
    Ok(without_temporaries(program).peak())
}

/// A copy without the temporaries of the optimizer step.
pub(super) fn without_temporaries<'p>(program: &'p Program<'p>) -> super::program::Changed<'p> {
    let mut changed = program.changed();
    for (at, item) in program.indexed() {
        if is_temporary(program, item) {
            changed.sizes[at] = 0;
        }
    }
    changed
}

/// The peak with `foreach=False`: the step has temporaries of one parameter at a time.
pub(super) fn without_foreach(program: &Program<'_>) -> Result<u64, NoEstimate> {
    name(program)?;
    if !program.items.iter().any(|item| is_in(program, item, "_multi_tensor")) {
        return Err(NoEstimate::NoForeach);
    }
    let mut changed = without_temporaries(program);
    let bytes = TEMPORARIES * program.largest_parameter();
    for pass in program.passes_of(PassPhase::Optimizer) {
        changed.add(pass.from, pass.to, bytes);
    }
    Ok(changed.peak())
}

/// The peak with bitsandbytes' 8-bit Adam. Assumes states of float32.
pub(super) fn adam_8bit(program: &Program<'_>) -> Result<u64, NoEstimate> {
    if !["adam", "adamw"].contains(&name(program)?) {
        return Err(NoEstimate::NoAdam);
    }
    let mut changed = without_temporaries(program);
    let mut states = 0;
    for (at, item) in program.indexed().filter(|(_, item)| item.category == Category::OptimizerState) {
        states += 1;
        if item.size >= LEAST_IN_8_BITS {
            changed.sizes[at] = item.size / 4 + item.size / ELEMENTS_PER_SCALE;
        }
    }
    if states == 0 { Err(NoEstimate::NoAdam) } else { Ok(changed.peak()) }
}
