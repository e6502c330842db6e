//! Whether the repetitions of a stack are a loop of the program, and not the layers of one forward pass.
//!
//! A model calls its layers in a loop too. What tells them apart is the rest of the model: in a loop of the program, everything
//! that the calling line does comes again, and other lines between its calls; in a single forward pass, the embedding at its beginning does
//! not, and nothing comes in between.

use std::ops::Range;

use hashbrown::HashMap;
use vramscope_trace::{Frame, FrameId, StackId, Trace};

use super::growth::{Repetition, Seen};
use crate::stacks::{Code, Frames};

/// Files of PyTorch whose loops are over the layers, the parameters or the segments of one model.
const LOOPS_OF_MODELS: [&str; 4] = ["torch/nn/", "torch/optim/", "torch/autograd/", "torch/utils/checkpoint"];

/// The fewest other stacks that must come with the repetitions.
const FEWEST_OTHERS: usize = 2;

/// Out of this many stacks that began with the first repetition, one may be made once only, such as a mask that is kept.
const ONE_MAY_BE_LAZY: usize = 10;

/// The stacks of a recording, and when each of them allocated.
#[derive(Clone, Copy)]
pub(super) struct Calls<'t> {
    pub(super) trace: &'t Trace,
    pub(super) frames: &'t Frames,
    /// By the index of the stack.
    pub(super) seen: &'t [Option<Seen>],
}

impl<'t> Calls<'t> {
    /// Whether everything that the line does which leads to `stack` comes again with the repetitions. Without other evidence that the loop is
    /// one of the program (`is_shown`), something outside of the model must come between the repetitions.
    pub(super) fn is_loop(self, stack: StackId, repetitions: &[Repetition], is_shown: bool) -> bool {
        let (Some(second), Some(middle)) = (repetitions.get(1), repetitions.get(repetitions.len() / 2))
        else {
            return false;
        };
        let caller = self.caller_of_model(stack);
        if caller.is_empty() {
            return true;
        }
        let (Some(first), Some(last)) = (repetitions.first(), repetitions.last()) else { return false };
        // Frames of the interpreter differ from call to call, so Python's frames tell which stacks are the same.
        let mut calls: HashMap<Vec<FrameId>, Seen> = HashMap::new();
        for (id, seen) in self.all().filter(|&(id, _)| self.is_called_by(id, &caller)) {
            let of = calls.entry(self.python(id).collect()).or_insert(seen);
            (of.first, of.last) = (of.first.min(seen.first), of.last.max(seen.last));
        }
        let began = calls.values().filter(|seen| seen.first < second.first).count();
        let once =
            calls.values().filter(|seen| seen.first < second.first && seen.last < middle.first).count();
        once * ONE_MAY_BE_LAZY <= began && (is_shown || self.is_interrupted(stack, first.first..last.last))
    }

    /// Whether something outside of the call of a model that leads to `stack` allocates within a range of allocations: the next input, a loss, a
    /// backward pass. True if the stack leads to no model.
    pub(super) fn is_interrupted(self, stack: StackId, range: Range<u32>) -> bool {
        let caller = self.caller_of_model(stack);
        if self.python(stack).count() == caller.len() {
            return true;
        }
        let is_within = |seen: Seen| {
            let around = seen.first < range.start && seen.last >= range.end;
            around || range.contains(&seen.first) || range.contains(&seen.last)
        };
        let is_in_model = |id| {
            let next = self.python(id).nth(caller.len());
            self.is_called_by(id, &caller) && next.is_some_and(|frame| self.is_of_model(frame))
        };
        self.all().any(|(id, seen)| is_within(seen) && !is_in_model(id))
    }

    /// Whether other stacks allocate again and again with the repetitions of `stack`, as the work of a loop does. A loop that loads and converts
    /// the parameters of a model has one other stack.
    pub(super) fn has_other_work(self, stack: StackId, repetitions: &[Repetition]) -> bool {
        self.others(stack, repetitions).take(FEWEST_OTHERS).count() == FEWEST_OTHERS
    }

    /// Whether the loop of the repetitions goes on after an allocation: at least half of the other stacks that come with them do.
    pub(super) fn goes_on(self, stack: StackId, repetitions: &[Repetition], after: u32) -> bool {
        let (mut all, mut later) = (0usize, 0usize);
        for seen in self.others(stack, repetitions) {
            all += 1;
            later += usize::from(seen.last > after);
        }
        all > 0 && later * 2 >= all
    }

    /// The other stacks that allocate again and again with the repetitions of `stack`.
    fn others(self, stack: StackId, repetitions: &[Repetition]) -> impl Iterator<Item = Seen> + use<'t> {
        let middle = repetitions.get(repetitions.len() / 2).map_or(0, |middle| middle.first);
        let least = repetitions.len();
        let comes_with =
            move |&seen: &Seen| seen.count as usize * 2 >= least && seen.first < middle && seen.last > middle;
        self.all().filter(move |&(id, _)| id != stack).map(|(_, seen)| seen).filter(comes_with)
    }

    /// All stacks with allocations.
    fn all(self) -> impl Iterator<Item = (StackId, Seen)> + use<'t> {
        self.trace.stacks.iter().filter_map(move |(id, _)| Some((id, self.seen[id.index()]?)))
    }

    /// Returns the Python frames of a stack, outermost first, up to the one that calls the model.
    fn caller_of_model(self, stack: StackId) -> Vec<FrameId> {
        self.python(stack).take_while(|&frame| !self.is_of_model(frame)).collect()
    }

    fn python(self, stack: StackId) -> impl Iterator<Item = FrameId> + use<'t> {
        let all = self.trace.stacks.get(stack).iter().rev().copied();
        all.filter(move |&frame| self.frames.code(frame) != Code::Native)
    }

    fn is_called_by(self, stack: StackId, caller: &[FrameId]) -> bool {
        self.python(stack).take(caller.len()).eq(caller.iter().copied())
    }

    fn is_of_model(self, frame: FrameId) -> bool {
        let Frame { name, filename, .. } = self.trace.frames.get(frame);
        let (name, path) = (self.trace.strings.get(name), self.trace.strings.get(filename));
        matches!(name, "forward" | "__init__") || LOOPS_OF_MODELS.iter().any(|part| path.contains(part))
    }
}
