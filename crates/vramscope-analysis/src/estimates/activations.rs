//! Changes to activations: their number, their precision, and the time that they are on the GPU.

use hashbrown::HashSet;
use vramscope_trace::{Category, StackId};

use super::program::{Changed, Item, Pass, Program, is_activation};
use super::{NoEstimate, is_of_batch};
use crate::categories::PassPhase;
use crate::history::Moment;

/// Smaller allocations do not grow with the batch, like counters and masks.
const LEAST: u64 = 64 << 10;

/// The later activations of the forward pass that are allocated while the program still refers to one.
const REFERRED: usize = 4;

/// The activations that are copied back from the host before they are used.
const COPIED_AHEAD: usize = 2;

/// The smallest parameter that is a matrix.
const MATRIX: u64 = 64 << 10;

fn needs_activations(program: &Program<'_>) -> Result<(), NoEstimate> {
    program.activations().next().map(|_| ()).ok_or(NoEstimate::NoActivations)
}

/// Whether the size of an item follows from the batch. A temporary has the size of an activation then: it is its gradient, or its source.
pub(super) fn grows_with_batch(item: &Item, activations: &HashSet<u64>) -> bool {
    match item.category {
        Category::Activation | Category::Input => item.size > LEAST,
        Category::Temporary | Category::Unknown => {
            item.size > LEAST && is_of_batch(item.phase) && activations.contains(&item.size)
        }
        _ => false,
    }
}

/// A copy with a part of the batch: one of `parts` equal ones.
pub(super) fn part_of_batch<'p>(program: &'p Program<'p>, parts: u64) -> Result<Changed<'p>, NoEstimate> {
    needs_activations(program)?;
    let mut changed = program.changed();
    let activations = program.activations().map(|(_, item)| item.size).collect();
    for (at, item) in program.indexed().filter(|(_, item)| grows_with_batch(item, &activations)) {
        changed.sizes[at] = item.size.div_ceil(parts);
    }
    Ok(changed)
}

/// The peak with half of the batch.
pub(super) fn half_batch(program: &Program<'_>) -> Result<u64, NoEstimate> {
    part_of_batch(program, 2).map(Changed::peak)
}

/// The peak if saved tensors are in host memory.
pub(super) fn offloaded(program: &Program<'_>) -> Result<u64, NoEstimate> {
    needs_activations(program)?;
    let all: Vec<(usize, Item)> = program.activations().map(|(at, item)| (at, *item)).collect();
    let mut changed = program.changed();
    offload(&mut changed, &all);
    // Weights are saved tensors too, and each comes back in a copy.
    let weight = program.largest_parameter();
    for pass in program.passes_of(PassPhase::Backward) {
        changed.add(pass.from, pass.to, weight);
    }
    Ok(changed.peak())
}

/// Keeps activations, which are in order, in host memory: an activation is on the GPU while the forward pass refers to it, and again shortly
/// before the backward pass uses it.
pub(super) fn offload(changed: &mut Changed<'_>, all: &[(usize, Item)]) {
    let mut ends: Vec<Moment> = all.iter().map(|(_, item)| item.to).collect();
    ends.sort_unstable();
    for (position, &(at, item)) in all.iter().enumerate() {
        let size = changed.sizes[at];
        let referred = all.get(position + REFERRED).map_or(item.to, |(_, later)| later.from.min(item.to));
        changed.cut(at, referred);
        if item.to == Moment::NEVER {
            continue;
        }
        let used = ends.partition_point(|&end| end < item.to);
        let ahead = used.checked_sub(COPIED_AHEAD).map_or(referred, |before| ends[before]);
        changed.add(ahead.max(referred), item.to, size);
    }
}

/// The precision of an operation under autocast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// It converts its inputs to bfloat16, and so is its result.
    Half,
    /// It converts its inputs to float32, and so is its result.
    Full,
    /// Its result has the data type of its inputs.
    Follows,
    /// It is not known.
    Unknown,
}

/// Functions of `torch/nn/functional.py` that autocast computes in float32 (`aten/src/ATen/autocast_mode.h`, PyTorch 2.11). So are all
/// losses.
const IN_FULL: [&str; 13] = [
    "layer_norm",
    "group_norm",
    "rms_norm",
    "local_response_norm",
    "softmax",
    "log_softmax",
    "softmin",
    "normalize",
    "cosine_similarity",
    "gumbel_softmax",
    "pdist",
    "cdist",
    "cross_entropy",
];

/// Files of modules with matrix products and convolutions.
const IN_HALF: [&str; 5] = [
    "torch/nn/modules/linear.py",
    "torch/nn/modules/conv.py",
    "torch/nn/modules/rnn.py",
    "transformers/pytorch_utils.py",
    "transformers/integrations/sdpa_attention.py",
];

/// Files of modules that follow the data type of their inputs.
const FOLLOWING: [&str; 5] = [
    "torch/nn/functional.py",
    "torch/nn/modules/activation.py",
    "torch/nn/modules/batchnorm.py",
    "torch/nn/modules/dropout.py",
    "torch/nn/modules/pooling.py",
];

/// The precision of the innermost Python function of a stack.
fn precision(program: &Program<'_>, stack: StackId) -> Precision {
    let Some((file, function)) = program.frames_of(stack).find(|(file, _)| file.ends_with(".py")) else {
        return Precision::Unknown;
    };
    let file = file.replace('\\', "/");
    let is_in = |files: &[&str]| files.iter().any(|known| file.ends_with(known));
    if file.ends_with("torch/nn/functional.py") && (IN_FULL.contains(&function) || function.contains("loss"))
    {
        Precision::Full
    } else if is_in(&IN_HALF) {
        Precision::Half
    } else if is_in(&FOLLOWING) {
        Precision::Follows
    } else {
        Precision::Unknown
    }
}

/// The peak with autocast of the forward pass to bfloat16. Assumes that the program computes in float32.
pub(super) fn autocast(program: &Program<'_>) -> Result<u64, NoEstimate> {
    needs_activations(program)?;
    program.needs_stacks()?;
    let stacks = || program.items.iter().filter_map(|item| item.stack);
    if stacks().any(|stack| program.frames_of(stack).any(|(_, name)| name.contains("at::autocast::"))) {
        return Err(NoEstimate::AlreadyAutocast);
    }
    let mut changed = program.changed();
    let is_of_forward = |item: &Item| {
        is_activation(item) || item.category == Category::Temporary && item.phase == PassPhase::Forward
    };
    let with_stack = program.indexed().filter(|(_, item)| item.size > LEAST && is_of_forward(item));
    let operations: Vec<(usize, &Item, Precision)> =
        with_stack.filter_map(|(at, item)| Some((at, item, precision(program, item.stack?)))).collect();
    let mut is_half = false;
    for (position, &(at, item, precision)) in operations.iter().enumerate() {
        is_half = match precision {
            Precision::Half => true,
            Precision::Full | Precision::Unknown => false,
            Precision::Follows => is_half,
        };
        if is_half {
            changed.sizes[at] = item.size / 2;
            continue;
        }
        if precision == Precision::Full {
            // The input is converted first.
            changed.add(item.from, Moment::after(item.from.index()), item.size);
        }
        // Operations in bfloat16 save their own copies of their input, which is then no longer needed.
        let later = operations[position + 1..].iter();
        let copies = later.take_while(|(_, _, precision)| *precision == Precision::Half).count() as u64;
        if copies > 0 && item.category == Category::Activation {
            changed.sizes[at] = item.size / 2 * copies;
        }
    }
    let inputs = program.items.iter().filter(|i| i.category == Category::Input && i.size > LEAST);
    for input in inputs {
        changed.add(input.from, input.to, input.size / 2);
    }
    // The weights in bfloat16, until the backward pass ends.
    let weights = program.items.iter().filter(|i| i.category == Category::Parameter && i.size >= MATRIX);
    let weights: u64 = weights.map(|item| item.size / 2).sum();
    for backward in program.passes_of(PassPhase::Backward) {
        let before = |pass: &&Pass| pass.from < backward.from;
        let Some(forward) = program.passes_of(PassPhase::Forward).rfind(before) else { continue };
        changed.add(forward.from, backward.to, weights);
    }
    if program.passes_of(PassPhase::Backward).next().is_none() {
        // A request failed in the first forward pass.
        changed.add(program.history.end(), Moment::NEVER, weights);
    }
    Ok(changed.peak())
}
