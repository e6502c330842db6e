//! Changes of the program that a recording points to: what is retained can be dropped or moved, what is large can be made in parts.
//!
//! The changes of a leak come from the blocks that it retains, those of a failed request from the blocks that were live with it. Rules use
//! frames of PyTorch and transformers, categories, and sizes; each is a function here.

use hashbrown::{HashMap, HashSet};
use vramscope_basics::count_steps;
use vramscope_trace::{Category, FrameId, Phase, StackId};

use super::certainty::Certainty;
use super::leaks::{LeakSuspect, retained};
use super::oom_causes::OomCauseKind;
use super::out_of_memory::OomExplanation;
use crate::categories::AllocationCategories;
use crate::history::{History, Moment, RecordedAllocation};
use crate::stacks::{Code, Frames};
use crate::steps::Steps;

/// A change of the program that the recording points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fix {
    /// What to change.
    pub kind: FixKind,
    /// The line of the memory that the change is about, if one has most of it.
    pub line: Option<FrameId>,
    /// Bytes of that memory.
    pub bytes: u64,
    /// How far the recording shows that the change helps.
    pub certainty: Certainty,
}

/// What to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixKind {
    /// Free the tensors of a loaded file after they were copied into the model, or load them to host memory.
    DropCheckpoint,
    /// Drop the model or the optimizer of before, and what refers to them.
    DropEarlierModel,
    /// Keep fewer copies of weights or of optimizer states, or keep them in host memory.
    FewerCopies,
    /// Leave autocast between models, or turn its cache of weights off.
    AutocastCache,
    /// Let Trainer move its results to host memory, or make them smaller.
    EvalAccumulation,
    /// Turn gradients off, or drop the graphs of results. No backward pass was recorded.
    NoGrad,
    /// Keep numbers or detached tensors instead of tensors with a graph.
    Detach,
    /// Keep less of the results, or keep them in host memory.
    FewerResults,
    /// A smaller state of the optimizer.
    SmallerOptimizer,
    /// The loss in chunks, so that the logits of all tokens are never live at once.
    ChunkedLoss,
    /// Attention that does not make the matrix of all scores.
    FusedAttention,
    /// Limit the largest input: this step needs far more than the others.
    LimitInput,
    /// Compute the result of this line in parts.
    InParts,
    /// Smaller batches.
    SmallerBatch,
}

impl FixKind {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DropCheckpoint => "drop_checkpoint",
            Self::DropEarlierModel => "drop_earlier_model",
            Self::FewerCopies => "fewer_copies",
            Self::AutocastCache => "autocast_cache",
            Self::EvalAccumulation => "eval_accumulation",
            Self::NoGrad => "no_grad",
            Self::Detach => "detach",
            Self::FewerResults => "fewer_results",
            Self::SmallerOptimizer => "smaller_optimizer",
            Self::ChunkedLoss => "chunked_loss",
            Self::FusedAttention => "fused_attention",
            Self::LimitInput => "limit_input",
            Self::InParts => "in_parts",
            Self::SmallerBatch => "smaller_batch",
        }
    }
}

/// What the changes are found in.
pub(crate) struct Evidence<'r> {
    history: &'r History,
    frames: &'r Frames,
    categories: &'r AllocationCategories,
    steps: &'r Steps,
    /// The marks of each text of the trace, as a function.
    marks: Vec<Mark>,
}

/// What a function in a stack shows, as a bit.
type Mark = u8;
const FORWARD: Mark = 1;
const LOSS: Mark = 2;
const SCORES: Mark = 4;
const COLLECTS: Mark = 8;
const COPIES: Mark = 16;

/// Functions by what they show: PyTorch 2.15, transformers 5.
const FUNCTIONS: &[(&str, Mark)] = &[
    ("forward", FORWARD),
    ("_call_impl", FORWARD),
    // They compute a loss from logits.
    ("cross_entropy", LOSS),
    ("nll_loss", LOSS),
    ("log_softmax", LOSS),
    ("fixed_cross_entropy", LOSS),
    ("ForCausalLMLoss", LOSS),
    // They make the matrix of all scores of attention.
    ("eager_attention_forward", SCORES),
    ("_scaled_dot_product_attention_math", SCORES),
    ("multi_head_attention_forward", SCORES),
    // Trainer collects the results of an evaluation.
    ("nested_concat", COLLECTS),
    ("evaluation_loop", COLLECTS),
    ("deepcopy", COPIES),
    ("__deepcopy__", COPIES),
    ("state_dict", COPIES),
];

/// A graph retains results of at least this many stacks with each repetition, two of them in forward passes.
const STACKS_OF_GRAPH: usize = 3;

/// A leak of fewer bytes than one of this many parts of the peak does not matter.
const LEAST_LEAK_PART: u64 = 100;

/// Memory of at least one of this many parts of the live bytes matters.
const LEAST_PART: u64 = 4;

/// A function that holds its bytes in at most this many blocks makes large temporaries.
const FEW_BLOCKS: usize = 8;

impl<'r> Evidence<'r> {
    /// Finds the changes for the leaks and for the first failed request, the most useful first. Empty if nothing leaks or failed for a
    /// reason in the program.
    pub(crate) fn fixes(
        history: &'r History,
        frames: &'r Frames,
        categories: &'r AllocationCategories,
        steps: &'r Steps,
        peak: u64,
        oom: Option<&OomExplanation>,
        leaks: &[LeakSuspect],
    ) -> Vec<Fix> {
        let marks = || history.trace().strings.iter().map(marks_of).collect();
        let this = || Self { history, frames, categories, steps, marks: marks() };
        let least = oom.map_or(peak, |oom| oom.counters.allocated) / LEAST_LEAK_PART;
        let of_leaks = || {
            leaks
                .first()
                .filter(|leak| leak.kept_bytes >= least)
                .map(|first| this().of_leaks(first, leaks))
                .into_iter()
                .collect()
        };
        match oom.and_then(|oom| oom.causes.main().map(|cause| (oom, cause))) {
            None => of_leaks(),
            Some((oom, cause)) => match cause.kind {
                OomCauseKind::Leak(line) if leaks.iter().all(|leak| leak.line != line) => {
                    let (line, bytes, certainty) = (Some(line), cause.bytes, cause.certainty);
                    vec![Fix { kind: FixKind::DropCheckpoint, line, bytes, certainty }]
                }
                OomCauseKind::Leak(_) => of_leaks(),
                OomCauseKind::Size | OomCauseKind::Rising => match cause.per_step {
                    None => this().of_size(oom),
                    Some(bytes) => {
                        let (kind, line, certainty) = (FixKind::FewerResults, None, Certainty::Possible);
                        vec![Fix { kind, line, bytes, certainty }]
                    }
                },
                _ => Vec::new(),
            },
        }
    }

    fn of_leaks(&self, first: &LeakSuspect, leaks: &[LeakSuspect]) -> Fix {
        let (line, bytes) = (Some(first.line), leaks.iter().map(|leak| leak.kept_bytes).sum());
        let kept: Vec<&RecordedAllocation> = retained(self.history, leaks)
            .into_iter()
            .flatten()
            .map(|id| &self.history.allocations[id])
            .collect();
        count_steps(kept.len());
        let is_mostly = |is: &dyn Fn(&RecordedAllocation) -> bool| {
            kept.iter().filter(|a| is(a)).map(|a| a.size).sum::<u64>() * 2 >= bytes
        };
        let stacks: HashSet<StackId> = leaks.iter().flat_map(|leak| leak.stacks.iter().copied()).collect();
        let in_forward = stacks.iter().filter(|&&stack| self.has(stack, FORWARD));
        let is_of_model = |a: &RecordedAllocation| {
            matches!(self.categories.category(a), Category::Parameter | Category::OptimizerState)
        };
        let kind = if self.is_in_autocast(&kept, first.end) {
            FixKind::AutocastCache
        } else if first.repetitions == 2 {
            FixKind::DropEarlierModel
        } else if self.has(first.stack, COLLECTS) {
            FixKind::EvalAccumulation
        } else if self.are_copies(&kept, first.end) {
            FixKind::FewerCopies
        } else if is_mostly(&is_of_model) {
            FixKind::DropEarlierModel
        } else if stacks.len() < STACKS_OF_GRAPH || in_forward.count() < 2 {
            FixKind::FewerResults
        } else if self.steps.phases.iter().any(|phase| phase.phase == Phase::Backward) {
            FixKind::Detach
        } else {
            FixKind::NoGrad
        };
        Fix { kind, line, bytes, certainty: first.certainty.max(Certainty::Likely) }
    }

    /// Whether most of the retained blocks are weights of which other live blocks of half the size exist, as autocast's copies are.
    fn is_in_autocast(&self, kept: &[&RecordedAllocation], end: Moment) -> bool {
        let mut halves: HashMap<u64, usize> = HashMap::new();
        for a in self.history.allocated_at(end) {
            *halves.entry(a.requested.saturating_mul(2)).or_default() += 1;
        }
        let (mut weights, mut copied) = (0, 0);
        for a in kept.iter().filter(|a| self.categories.category(a) == Category::Parameter) {
            weights += a.size;
            if let Some(left) = halves.get_mut(&a.requested).filter(|left| **left > 0) {
                *left -= 1;
                copied += a.size;
            }
        }
        copied * 2 > weights
    }

    /// Whether most of the retained bytes are in blocks of the sizes of parameters that copies made, or the program's own lines.
    fn are_copies(&self, kept: &[&RecordedAllocation], end: Moment) -> bool {
        let live = self.history.allocated_at(end);
        let of_model = live.filter(|a| self.categories.category(a) == Category::Parameter);
        let sizes: HashSet<u64> = of_model.map(|a| a.requested).collect();
        let is_copy = |a: &&&RecordedAllocation| {
            let copies = |stack| self.has(stack, COPIES);
            let is_own = |stack: StackId| {
                let frames = self.history.trace().stacks.get(stack);
                frames.iter().all(|&frame| self.frames.code(frame) != Code::Library)
            };
            let stack = self.history.stack_of(a);
            let is_state = self.categories.category(a) == Category::OptimizerState;
            !is_state
                && sizes.contains(&a.requested)
                && stack.is_some_and(|stack| copies(stack) || is_own(stack))
        };
        let all: u64 = kept.iter().map(|a| a.size).sum();
        kept.iter().filter(is_copy).map(|a| a.size).sum::<u64>() * 10 >= all * 9
    }

    fn of_size(&self, oom: &OomExplanation) -> Vec<Fix> {
        let moment = Moment::after(oom.event);
        let all = oom.counters.allocated.saturating_add(oom.request.bytes);
        // The failed request counts as a block.
        let request = (oom.stack, oom.request.bytes, None);
        let live = self.history.allocated_at(moment);
        let live = live.map(|a| (self.history.stack_of(a), a.size, Some(self.categories.category(a))));
        let blocks: Vec<Block> = live.chain([request]).collect();
        count_steps(blocks.len());
        let is_large = |bytes: u64| bytes >= all / LEAST_PART;
        let change = |kind, line, bytes, certainty| Fix { kind, line, bytes, certainty };
        let (mut changes, likely) = (Vec::new(), Certainty::Likely);
        let of = |of: &[Category]| {
            let of_them = blocks.iter().filter(|(_, _, is)| is.is_some_and(|is| of.contains(&is)));
            of_them.map(|&(_, bytes, _)| bytes).sum::<u64>()
        };
        let state = of(&[Category::OptimizerState]);
        let line = oom.stack.and_then(|stack| self.frames.own_frame(self.history.trace(), stack));
        if let Some((stack, bytes)) = self.logits(&blocks).filter(|&(_, bytes)| is_large(bytes)) {
            let line = self.frames.own_frame(self.history.trace(), stack);
            changes.push(change(FixKind::ChunkedLoss, line, bytes, likely));
        }
        if is_large(state) {
            changes.push(change(FixKind::SmallerOptimizer, None, state, likely));
        }
        let scores = blocks.iter().filter(|(stack, ..)| stack.is_some_and(|s| self.has(s, SCORES)));
        let scores = scores.map(|&(_, bytes, _)| bytes).sum();
        if is_large(scores) {
            changes.push(change(FixKind::FusedAttention, line, scores, likely));
        }
        if let Some(above) = self.steps.above_usual(all) {
            changes.push(change(FixKind::LimitInput, line, above, likely));
        }
        if let Some((line, bytes)) = self.parts(&blocks).filter(|&(_, bytes)| bytes >= all / 2) {
            changes.push(change(FixKind::InParts, Some(line), bytes, Certainty::Possible));
        }
        let of_batch =
            all - of(&[Category::Parameter, Category::OptimizerState, Category::Gradient]).min(all);
        let is_of_batch = |fix: &Fix| fix.kind == FixKind::LimitInput;
        if changes.iter().all(is_of_batch) && of_batch >= all / 2 {
            changes.push(change(FixKind::SmallerBatch, line, of_batch, likely));
        }
        changes
    }

    /// The stack of a loss, and the bytes of live blocks as large as its largest one, or half or twice as large.
    fn logits(&self, blocks: &[Block]) -> Option<(StackId, u64)> {
        let of_loss = blocks.iter().filter_map(|&(stack, bytes, _)| {
            let stack = stack.filter(|&stack| self.has(stack, LOSS))?;
            Some((bytes, stack))
        });
        let (size, stack) = of_loss.max()?;
        let is_alike =
            |bytes: u64| [size / 2, size, size.saturating_mul(2)].iter().any(|&of| near(bytes, of));
        Some((stack, blocks.iter().map(|&(_, bytes, _)| bytes).filter(|&bytes| is_alike(bytes)).sum()))
    }

    /// The line whose function holds most bytes, if it holds them in few blocks, and these bytes. Parameters and the like do not count.
    fn parts(&self, blocks: &[Block]) -> Option<(FrameId, u64)> {
        let trace = self.history.trace();
        let mut functions: HashMap<_, (u64, usize, u64, FrameId)> = HashMap::new();
        for &(stack, bytes, category) in blocks {
            // What a backward pass needs stays live if it is made in parts.
            let stays = |is| {
                use Category as C;
                matches!(is, C::Parameter | C::OptimizerState | C::Gradient | C::Activation)
            };
            if category.is_some_and(stays) {
                continue;
            }
            let Some(line) = stack.and_then(|stack| self.frames.own_frame(trace, stack)) else { continue };
            let frame = trace.frames.get(line);
            let of = functions.entry((frame.filename, frame.name)).or_insert((0, 0, 0, line));
            of.0 += bytes;
            of.1 += 1;
            if bytes > of.2 {
                (of.2, of.3) = (bytes, line);
            }
        }
        let most = functions.into_values().max_by_key(|&(bytes, _, _, line)| (bytes, line))?;
        (most.1 <= FEW_BLOCKS).then_some((most.3, most.0))
    }

    /// Whether a function of the stack shows `mark`.
    fn has(&self, stack: StackId, mark: Mark) -> bool {
        let trace = self.history.trace();
        let mut frames = trace.stacks.get(stack).iter();
        frames.any(|&frame| self.marks[trace.frames.get(frame).name.index()] & mark != 0)
    }
}

/// A live block: its stack, its bytes and its category; the failed request has none.
type Block = (Option<StackId>, u64, Option<Category>);

/// Whether two sizes differ by at most a hundredth, as rounding makes them.
fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= b / 100
}

/// The marks of a function. C++ names contain the name.
fn marks_of(function: &str) -> Mark {
    let is = |name: &str| function == name || function.contains("::") && function.contains(name);
    FUNCTIONS.iter().filter(|(name, _)| is(name)).fold(0, |marks, (_, mark)| marks | mark)
}
