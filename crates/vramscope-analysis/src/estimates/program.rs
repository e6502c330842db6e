//! The recorded allocations with their phases, and the peak of a changed copy.

use hashbrown::{HashMap, HashSet};
use vramscope_trace::{Action, Category, StackId};

use super::{NoEstimate, Unrecorded};
use crate::categories::{AllocationCategories, PassPhase};
use crate::history::{History, LifetimeChange, LifetimeChanges, Moment, RecordedAllocation};

/// An allocation of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) from: Moment,
    pub(super) to: Moment,
    pub(super) size: u64,
    pub(super) category: Category,
    pub(super) phase: PassPhase,
    pub(super) stack: Option<StackId>,
    /// The index in [`History::allocations`]; `None` for the failed request.
    pub(super) id: Option<u32>,
}

/// An interval of moments in one phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) phase: PassPhase,
    pub(super) from: Moment,
    /// The first moment of the next pass.
    pub(super) to: Moment,
}

/// The device of a recording in which a request failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device {
    pub(super) total: u64,
    /// The part of it that the allocator could not use.
    pub(super) overhead: u64,
}

/// A recorded training program.
pub(super) struct Program<'h> {
    pub(super) history: &'h History,
    pub(super) categories: &'h AllocationCategories,
    /// In order of their first moments.
    pub(super) items: Vec<Item>,
    pub(super) passes: Vec<Pass>,
    /// The begins and ends of all items, in order.
    changes: Vec<(Moment, LifetimeChange, u32)>,
    /// The peak of allocated bytes.
    pub(super) peak: u64,
    /// The sizes of gradients.
    pub(super) gradient_sizes: HashSet<u64>,
    /// The optimizer of PyTorch, by the name of its function: `adam` for `_multi_tensor_adam`.
    pub(super) optimizer: Option<String>,
    /// The last failed request.
    failed: Option<usize>,
}

/// A forward pass that begins this often, without a backward pass, is inference.
const REPEATED: usize = 3;

/// A changed copy of a program.
pub(super) struct Changed<'p> {
    program: &'p Program<'p>,
    /// The sizes of the items.
    pub(super) sizes: Vec<u64>,
    /// Further lifetimes `from..to`, with their bytes.
    more: Vec<(Moment, Moment, u64)>,
}

impl<'h> Program<'h> {
    /// Returns `None` if the recording shows no training: neither a backward pass, nor a forward pass that saves activations for one and is
    /// not repeated, as in inference with gradients.
    pub(super) fn of(history: &'h History, categories: &'h AllocationCategories) -> Option<Self> {
        let this = Self::of_any(history, categories);
        let has_backward = this.passes_of(PassPhase::Backward).next().is_some();
        let saves = |i: &Item| i.phase == PassPhase::Forward && i.category == Category::Activation;
        (has_backward || this.items.iter().any(saves) && !this.repeats_forward()).then_some(this)
    }

    /// Whether forward passes begin with the same allocation at least three times.
    fn repeats_forward(&self) -> bool {
        let mut first: HashMap<StackId, usize> = HashMap::new();
        self.passes_of(PassPhase::Forward).any(|pass| {
            let at = self.items.partition_point(|item| item.from < pass.from);
            let stack = self.items.get(at).filter(|item| item.from < pass.to).and_then(|item| item.stack);
            stack.is_some_and(|stack| {
                let times = first.entry(stack).or_default();
                *times += 1;
                *times >= REPEATED
            })
        })
    }

    /// Returns a program that may not train.
    pub(super) fn of_any(history: &'h History, categories: &'h AllocationCategories) -> Self {
        let passes = passes(categories);
        let phase_at = |moment: Moment| {
            let after = passes.partition_point(|pass| pass.from <= moment);
            after.checked_sub(1).map_or(PassPhase::Setup, |at| passes[at].phase)
        };
        let item = |(id, a): (u32, &RecordedAllocation)| Item {
            from: a.from,
            to: a.freed,
            size: a.size,
            category: categories.category(a),
            phase: phase_at(a.from),
            stack: history.stack_of(a),
            id: Some(id),
        };
        let all = (0..).zip(&history.allocations).filter(|(_, a)| a.from < a.freed && a.size > 0);
        let mut items: Vec<Item> = all.map(item).collect();
        let events = &history.device().events;
        let failed = events.actions().iter().rposition(|&action| action == Action::Oom);
        if let Some(event) = failed {
            let failed = events.get(event);
            let from = Moment::after(event);
            let category = match phase_at(from) {
                PassPhase::Between | PassPhase::Forward => Category::Activation,
                _ => Category::Temporary,
            };
            // It is live until something else happens.
            let (to, phase) = (Moment::after(event + 1), phase_at(from));
            items.push(Item { from, to, size: failed.size, category, phase, stack: failed.stack, id: None });
        }
        items.sort_by_key(|item| item.from);
        let lifetimes = (0_u32..).zip(&items).map(|(at, item)| (item.from, item.to, at));
        let changes: Vec<_> = LifetimeChanges::of(lifetimes).collect();
        let gradients = items.iter().filter(|item| item.category == Category::Gradient);
        let gradient_sizes = gradients.map(|item| item.size).collect();
        let optimizer = optimizer(history, &items);
        let mut this =
            Self { history, categories, items, passes, changes, peak: 0, gradient_sizes, optimizer, failed };
        this.peak = this.changed().peak();
        this
    }

    /// An unchanged copy.
    pub(super) fn changed(&self) -> Changed<'_> {
        Changed { program: self, sizes: self.items.iter().map(|item| item.size).collect(), more: Vec::new() }
    }

    /// The items with their indices.
    pub(super) fn indexed(&self) -> impl Iterator<Item = (usize, &Item)> {
        self.items.iter().enumerate()
    }

    /// The passes of one phase.
    pub(super) fn passes_of(&self, phase: PassPhase) -> impl DoubleEndedIterator<Item = &Pass> {
        self.passes.iter().filter(move |pass| pass.phase == phase)
    }

    /// The first pass of a phase that begins after `moment`, or contains it.
    pub(super) fn next_pass(&self, phase: PassPhase, moment: Moment) -> Option<&Pass> {
        self.passes_of(phase).find(|pass| pass.to > moment)
    }

    /// The activations of forward passes, with their indices.
    pub(super) fn activations(&self) -> impl Iterator<Item = (usize, &Item)> {
        self.indexed().filter(|(_, item)| is_activation(item))
    }

    /// The gradients that backward passes leave behind, with their indices, in the order of their allocation.
    pub(super) fn gradients(&self) -> impl Iterator<Item = (usize, &Item)> {
        self.indexed().filter(|(_, item)| item.category == Category::Gradient && item.id.is_some())
    }

    /// The size of the largest gradient, or of the largest parameter.
    pub(super) fn largest_parameter(&self) -> u64 {
        let of = |category| self.items.iter().filter(move |i| i.category == category).map(|i| i.size).max();
        of(Category::Gradient).or_else(|| of(Category::Parameter)).unwrap_or(0)
    }

    /// Whether any stack was recorded.
    pub(super) fn has_stacks(&self) -> bool {
        self.items.iter().any(|item| item.stack.is_some())
    }

    /// Fails if the recording has no stacks.
    pub(super) fn needs_stacks(&self) -> Result<(), NoEstimate> {
        if self.has_stacks() { Ok(()) } else { Err(NoEstimate::NoStacks) }
    }

    /// The frames of a stack as file and function, innermost first.
    pub(super) fn frames_of(&self, stack: StackId) -> impl Iterator<Item = (&str, &str)> {
        let trace = self.history.trace();
        let frames = trace.stacks.get(stack).iter().map(|&frame| trace.frames.get(frame));
        frames.map(|frame| (trace.strings.get(frame.filename), trace.strings.get(frame.name)))
    }

    /// The device, if a request failed. The recording may not have its whole size.
    pub(super) fn capacity(&self) -> Option<Device> {
        let event = self.failed?;
        let free = self.history.device().events.get(event).device_free()?;
        let reserved = self.history.counters_at(Moment::after(event)).reserved;
        let available = reserved.saturating_add(free);
        let total = self.history.device().total_bytes.unwrap_or(available).max(available);
        Some(Device { total, overhead: total - available })
    }

    /// The part of a step that no step of the recording reached.
    pub(super) fn unrecorded(&self) -> Option<Unrecorded> {
        self.failed?;
        // The last pass of a recording did not end.
        let ended = |phase| self.passes_of(phase).filter(|pass| pass.to != Moment::NEVER).count();
        if ended(PassPhase::Backward) == 0 {
            Some(Unrecorded::BeforeGradients)
        } else if ended(PassPhase::Optimizer) == 0 && ended(PassPhase::Backward) == 1 {
            // Between several backward passes, an optimizer such as plain SGD made no allocation.
            Some(Unrecorded::BeforeOptimizer)
        } else {
            None
        }
    }
}

impl Changed<'_> {
    /// Adds bytes at the moments `from..to`.
    pub(super) fn add(&mut self, from: Moment, to: Moment, size: u64) {
        if size > 0 {
            self.more.push((from, to, size));
        }
    }

    /// Ends a lifetime early.
    pub(super) fn cut(&mut self, item: usize, to: Moment) {
        let size = std::mem::take(&mut self.sizes[item]);
        self.add(self.program.items[item].from, to, size);
    }

    /// The peak of allocated bytes.
    pub(super) fn peak(self) -> u64 {
        let mut more =
            LifetimeChanges::of(self.more.iter().enumerate().map(|(at, of)| (of.0, of.1, at))).peekable();
        let (mut bytes, mut highest) = (0_u64, 0);
        let mut apply = |change, size: u64| {
            match change {
                LifetimeChange::Begins => bytes = bytes.saturating_add(size),
                LifetimeChange::Ends => bytes = bytes.saturating_sub(size),
            }
            highest = highest.max(bytes);
        };
        for &(moment, change, item) in &self.program.changes {
            // At one moment, ends come before begins.
            while let Some((_, of, at)) = more.next_if(|&(at, of, _)| (at, of) <= (moment, change)) {
                apply(of, self.more[at].2);
            }
            apply(change, self.sizes[item as usize]);
        }
        more.for_each(|(_, of, at)| apply(of, self.more[at].2));
        highest
    }
}

/// Whether an item was saved by a forward pass for the backward pass.
pub(super) fn is_activation(item: &Item) -> bool {
    item.category == Category::Activation && matches!(item.phase, PassPhase::Forward | PassPhase::Between)
}

/// The passes of the program, in order.
fn passes(categories: &AllocationCategories) -> Vec<Pass> {
    let starts = categories.phases();
    let ends = starts.iter().skip(1).map(|&(from, _)| Moment::after(from as usize)).chain([Moment::NEVER]);
    let pass = |(&(from, phase), to)| Pass { phase, from: Moment::after(from as usize), to };
    starts.iter().zip(ends).map(pass).collect()
}

/// The optimizer that most stacks show.
fn optimizer(history: &History, items: &[Item]) -> Option<String> {
    let trace = history.trace();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for stack in items.iter().filter_map(|item| item.stack) {
        for &frame in trace.stacks.get(stack) {
            let frame = trace.frames.get(frame);
            if let Some(name) = optimizer_in(trace.strings.get(frame.filename)) {
                *counts.entry(name).or_default() += 1;
            }
        }
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    counts.first().map(|(name, _)| (*name).to_owned())
}

/// The optimizer in a file of PyTorch: `adam` for `torch/optim/adam.py`.
fn optimizer_in(file: &str) -> Option<&str> {
    let path = file.rsplit_once("torch/optim/").or_else(|| file.rsplit_once("torch\\optim\\"))?.1;
    let name = path.strip_suffix(".py")?;
    (name != "optimizer" && name != "lr_scheduler" && !name.contains('/')).then_some(name)
}
