//! A checkpoint that is still held after its tensors were copied into the model.

use hashbrown::HashMap;
use vramscope_basics::count_steps;
use vramscope_trace::{FrameId, StackId, Trace};

use crate::history::{History, Moment, RecordedAllocation};
use crate::stacks::Frames;

/// The file of `torch.load`, for checkouts and installed packages.
const LOAD: &str = "torch/serialization.py";

/// The line that loaded tensors which exist twice at `moment`, and their bytes: as they were loaded, and as blocks of the same sizes that
/// other lines made. `None` without such tensors.
pub(crate) fn held_checkpoint(history: &History, frames: &Frames, moment: Moment) -> Option<(FrameId, u64)> {
    let trace = history.trace();
    let mut is_loaded: HashMap<StackId, bool> = HashMap::new();
    let mut loads = |a: &RecordedAllocation| {
        let of = |stack| *is_loaded.entry(stack).or_insert_with(|| has_load(trace, stack));
        history.stack_of(a).is_some_and(of)
    };
    let mut others: HashMap<u64, u64> = HashMap::new();
    let mut loaded: Vec<&RecordedAllocation> = Vec::new();
    for a in history.allocated_at(moment) {
        if loads(a) {
            loaded.push(a);
        } else {
            *others.entry(a.requested).or_default() += 1;
        }
    }
    count_steps(loaded.len());
    let mut lines: HashMap<FrameId, u64> = HashMap::new();
    for a in loaded {
        let Some(line) = history.stack_of(a).and_then(|stack| frames.own_frame(trace, stack)) else {
            continue;
        };
        if let Some(left) = others.get_mut(&a.requested).filter(|left| **left > 0) {
            *left -= 1;
            *lines.entry(line).or_default() += a.size;
        }
    }
    lines.into_iter().max_by_key(|&(line, bytes)| (bytes, std::cmp::Reverse(line)))
}

fn has_load(trace: &Trace, stack: StackId) -> bool {
    let frames = trace.stacks.get(stack).iter();
    frames.map(|&frame| trace.strings.get(trace.frames.get(frame).filename)).any(|file| file.contains(LOAD))
}
