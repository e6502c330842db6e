//! Infers the categories of allocations from stacks, lifetimes and repetition.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use vramscope_trace::{FrameId, StackId};

use super::stack_iterations::StackIterations;
use crate::categories::facts::{
    Ahead, AllocatedIn, AllocationFacts, BackwardFree, BetweenStack, ForwardStack, KnownSize, OpenFree,
    ParameterSize, PassFree, RecomputeFree, SetupFrames, StepFree, Stream, Turn, UnphasedFree, Use,
};
use crate::categories::phases::{
    Given, InferredPhase, NEVER, Phase, PhaseInterval, Phases, PhasesFrom, event, event_before,
    is_as_large_as_a_workspace, is_lt_workspace,
};
use crate::categories::rules::{Basis, CATEGORY_RULES, CategoryRule, decide};
use crate::categories::signs::{Sign, Signs, StackSigns};
use crate::history::{History, Moment, RecordedAllocation};

/// The inferred category of each recorded allocation.
#[derive(Debug, Default)]
pub(super) struct Inferred {
    /// The source of the phases.
    phases: Option<PhasesFrom>,
    /// The phases of steps, in order.
    intervals: Vec<InferredPhase>,
    iterations: StackIterations,
    /// The phases of the program, each with its first event.
    starts: Vec<(u32, Phase)>,
    /// By the event of the allocation: an index into [`CATEGORY_RULES`], possibly with the flag [`LIKE_OTHERS`].
    of_event: Vec<u8>,
}

/// Set if the category is that of other allocations with the same stack and size.
const LIKE_OTHERS: u8 = 0x80;

const _: () = assert!(CATEGORY_RULES.len() <= LIKE_OTHERS as usize);

impl Inferred {
    pub(super) fn of(history: &History) -> Self {
        let signs = Signs::of(history.trace());
        let phases = Phases::of(history, &signs);
        let known = Known::of(history, signs, &phases);
        let mut this = Self {
            phases: phases.known_from,
            intervals: phases.of_steps(),
            iterations: phases.iterations(history),
            starts: phases.intervals.iter().map(|interval| (interval.from, interval.phase)).collect(),
            of_event: vec![0; history.device().events.len()],
        };
        // Allocations whose fate is open at the end of the recording get the category of similar ones.
        let mut like: HashMap<(Likeness, Phase), Others> = HashMap::new();
        phases.each(history, |a, interval| {
            if phases.is_open(a, interval) {
                like.entry((likeness(a), interval.phase)).or_default();
            }
            this.set(a, decide(&known.facts(&phases, a, interval)));
        });
        if like.is_empty() {
            return this;
        }
        phases.each(history, |a, interval| {
            let Some(others) = like.get_mut(&(likeness(a), interval.phase)) else { return };
            let verdict = others.next(interval.from);
            if !phases.is_open(a, interval) {
                *verdict = this.at(event(a));
            } else if let Some(verdict) = *verdict {
                this.set(a, verdict | LIKE_OTHERS);
            }
        });
        this
    }

    fn at(&self, event: u32) -> Option<u8> {
        self.of_event.get(event as usize).copied()
    }

    fn set(&mut self, a: &RecordedAllocation, verdict: u8) {
        if let Some(slot) = self.of_event.get_mut(event(a) as usize) {
            *slot = verdict;
        }
    }

    /// Returns the iterations of the program.
    pub(super) fn iterations(&self) -> &StackIterations {
        &self.iterations
    }

    /// Returns the phases of steps, in order, and the source of them; `None` if none are known.
    pub(super) fn phases(&self) -> Option<(PhasesFrom, &[InferredPhase])> {
        self.phases.map(|from| (from, self.intervals.as_slice()))
    }

    /// Returns the phases of the program, each with its first event.
    pub(super) fn starts(&self) -> &[(u32, Phase)] {
        &self.starts
    }

    /// Returns the rule that determined the category of a recorded allocation, and its basis.
    pub(super) fn verdict(&self, a: &RecordedAllocation) -> Option<(&'static CategoryRule, Basis)> {
        let number = self.at(event(a))?;
        let rule = CATEGORY_RULES.get((number & !LIKE_OTHERS) as usize)?;
        let basis = match self.phases {
            Some(PhasesFrom::Repetition) => Basis::Rhythm,
            _ if number & LIKE_OTHERS != 0 => Basis::Others,
            _ => Basis::Itself,
        };
        Some((rule, basis))
    }
}

/// The stack and the requested size, which allocations of one kind share.
type Likeness = (Option<StackId>, u64);

fn likeness(a: &RecordedAllocation) -> Likeness {
    (a.stack, a.requested)
}

/// The categories of allocations of one kind, by their position in a phase interval: one line may make several per interval, with
/// different purposes.
#[derive(Default)]
struct Others {
    verdicts: Vec<Option<u8>>,
    /// The first event of the current interval, and the number of allocations made in it.
    interval: u32,
    made: usize,
}

impl Others {
    /// Returns the last category at the position of the next allocation, which is made in the interval that starts at `from`.
    fn next(&mut self, from: u32) -> &mut Option<u8> {
        if self.interval != from {
            (self.interval, self.made) = (from, 0);
        }
        let position = self.made;
        self.made += 1;
        if self.verdicts.len() == position {
            self.verdicts.push(None);
        }
        &mut self.verdicts[position]
    }
}

/// Properties of a recording as a whole.
struct Known {
    signs: Signs,
    /// Requested sizes of parameters; empty if none are known.
    parameters: HashSet<u64>,
    /// Sizes of allocations that backward passes retained.
    gradients: HashSet<u64>,
    /// The line of `Module._apply` that moves buffers: the last of several, since it moves parameters first.
    moves_buffers: Option<FrameId>,
    /// Whether the phases of the program are known.
    phases_are_known: bool,
    /// The first events of forward passes that no backward pass follows and that retain much of their memory.
    keeping: HashSet<u32>,
    /// Sizes of allocations that modules made, loaded or moved, with their numbers.
    modules: HashMap<u64, usize>,
    /// Tensors read from a file that are copies of parameters, by event.
    loaded_weights: HashSet<u32>,
    /// Allocations by the optimizer that parameters were bound to, by event.
    rebound: HashSet<u32>,
    /// Kinds of allocations that the program's own code also makes after a backward pass.
    again: HashSet<Likeness>,
    /// Allocations made by forward passes and freed by backward passes, in order: event and size.
    kept: Vec<(u32, u64)>,
    /// Stacks that make about one allocation for each gradient.
    for_each_gradient: HashSet<StackId>,
    /// Stacks in forward passes whose allocations grow from pass to pass.
    growing: HashSet<StackId>,
    /// Workspaces of cuBLASLt, by event.
    lt_workspaces: HashSet<u32>,
    /// In a recording without stacks: the stream with most of the allocated bytes.
    main_stream: Option<u64>,
}

/// A forward pass before a backward pass retains at least this share of its bytes when it ends; without a backward pass, it frees
/// nearly all of them. In recordings of training, the share is about a half.
const KEPT_FOR_BACKWARD: f64 = 0.2;

impl Known {
    fn of(history: &History, signs: Signs, phases: &Phases) -> Self {
        let (mut parameters, mut gradients) = (HashSet::new(), HashSet::new());
        let mut left_behind = 0;
        let mut passes: HashMap<u32, (u64, u64)> = HashMap::new();
        let (mut modules, mut again, mut kept) = (HashMap::new(), HashSet::new(), Vec::new());
        let mut growth: HashMap<StackId, Growth> = HashMap::new();
        phases.each(history, |a, interval| match interval.phase {
            Phase::Setup => {
                if setup_free(phases, a, interval) != StepFree::Within {
                    let signs = signs.get(a.stack);
                    if signs.has(Sign::Made) || signs.has(Sign::Moved) {
                        *modules.entry(a.requested).or_default() += 1;
                    }
                    parameters.insert(a.requested);
                }
            }
            Phase::Between => {
                if interval.after_backward {
                    again.insert(likeness(a));
                }
            }
            Phase::Forward if interval.is_before_backward() => {
                if pass_end(phases, a, interval) == PassEnd::InBackward {
                    kept.push((event(a), a.requested));
                }
            }
            Phase::Forward => {
                let end = pass_end(phases, a, interval);
                if end != PassEnd::Within
                    && let Some(stack) = a.stack
                {
                    growth.entry(stack).or_default().add(interval.from, a.requested);
                }
                let (made, kept) = passes.entry(interval.from).or_default();
                *made += a.size;
                *kept += if matches!(end, PassEnd::Open(_)) { a.size } else { 0 };
            }
            Phase::Backward => match backward_free(phases, a, interval) {
                BackwardFree::Never if is_as_large_as_a_workspace(a) => {}
                BackwardFree::Later | BackwardFree::Never => {
                    gradients.insert(a.requested);
                    left_behind += 1;
                }
                _ => {}
            },
            Phase::Recompute | Phase::Optimizer => {}
        });
        if parameters.is_empty() {
            parameters.extend(history.allocations.iter().filter(|a| a.is_preexisting()).map(|a| a.requested));
        }
        let keeps = |&(_, (made, kept)): &(u32, (u64, u64))| kept as f64 >= made as f64 * KEPT_FOR_BACKWARD;
        let keeping = passes.into_iter().filter(keeps).map(|(from, _)| from).collect();
        let growing = growth.into_iter().filter(|(_, g)| g.is_steady()).map(|(stack, _)| stack).collect();
        Self {
            loaded_weights: loaded_weights(history, &signs, &modules),
            rebound: rebound_parameters(history, phases, &signs),
            modules,
            again,
            kept,
            for_each_gradient: for_each_gradient(history, phases, &gradients, left_behind),
            growing,
            moves_buffers: signs.last_move(history.trace()),
            signs,
            parameters,
            gradients,
            phases_are_known: phases.known_from.is_some(),
            keeping,
            lt_workspaces: lt_workspaces(history),
            main_stream: (phases.known_from == Some(PhasesFrom::Repetition)).then(|| main_stream(history)),
        }
    }

    fn facts(&self, phases: &Phases, a: &RecordedAllocation, interval: PhaseInterval) -> AllocationFacts {
        let signs = self.signs.get(a.stack);
        AllocationFacts {
            signs,
            parameter: if self.modules.contains_key(&a.requested) {
                ParameterSize::Module
            } else if self.parameters.contains(&a.requested) {
                ParameterSize::Other
            } else {
                ParameterSize::NoParameter
            },
            is_loaded_weight: self.loaded_weights.contains(&event(a)),
            size: if self.lt_workspaces.contains(&event(a)) {
                KnownSize::Workspace
            } else if self.gradients.contains(&a.requested) {
                KnownSize::Gradient
            } else if is_as_large_as_a_workspace(a) {
                KnownSize::Workspace
            } else {
                KnownSize::Other
            },
            stream: if self.main_stream.is_none_or(|main| main == a.stream) {
                Stream::Main
            } else {
                Stream::Side
            },
            allocated: self.allocated(phases, a, interval, signs),
        }
    }

    fn allocated(
        &self,
        phases: &Phases,
        a: &RecordedAllocation,
        interval: PhaseInterval,
        signs: StackSigns,
    ) -> AllocatedIn {
        let ahead = self.ahead(interval);
        let freed = || self.pass_free(phases, a, interval);
        match interval.phase {
            _ if !self.phases_are_known => AllocatedIn::Unphased(match open_free(phases, a, interval) {
                Some(freed) => UnphasedFree::Open(freed),
                None => UnphasedFree::Within,
            }),
            Phase::Setup => AllocatedIn::Setup {
                freed: setup_free(phases, a, interval),
                by: self.setup_frames(signs),
                turn: self.turn(a, interval),
                ahead,
            },
            Phase::Between => AllocatedIn::Between {
                freed: freed(),
                stack: if a.stack.is_some_and(|stack| self.for_each_gradient.contains(&stack)) {
                    BetweenStack::OneForEachGradient
                } else {
                    BetweenStack::Other
                },
                turn: self.turn(a, interval),
            },
            Phase::Forward => {
                AllocatedIn::Forward { freed: freed(), stack: self.forward_stack(a, interval, signs) }
            }
            Phase::Backward => AllocatedIn::Backward { freed: backward_free(phases, a, interval), ahead },
            Phase::Recompute => AllocatedIn::Recompute { freed: recompute_free(a, interval), ahead },
            Phase::Optimizer => AllocatedIn::Optimizer {
                freed: step_free(phases, a, interval),
                ahead,
                rebinds: self.rebound.contains(&event(a)),
            },
        }
    }

    fn ahead(&self, interval: PhaseInterval) -> Ahead {
        if interval.is_before_backward() {
            Ahead::Backward
        } else if self.keeping.contains(&interval.from) {
            Ahead::BackwardUnrecorded
        } else {
            Ahead::NoBackward
        }
    }

    fn turn(&self, a: &RecordedAllocation, interval: PhaseInterval) -> Turn {
        match (interval.after_backward, interval.next_phase) {
            (true, Some(Phase::Optimizer)) => Turn::BeforeOptimizer,
            (true, _) => Turn::AfterBackward,
            (false, _) if self.again.contains(&likeness(a)) => Turn::FirstOfMany,
            (false, _) => Turn::First,
        }
    }

    fn setup_frames(&self, signs: StackSigns) -> SetupFrames {
        if signs.has(Sign::Moved) {
            let is_at_buffers = self.moves_buffers.is_some() && signs.moved_at == self.moves_buffers;
            if is_at_buffers { SetupFrames::MoveBuffer } else { SetupFrames::Move }
        } else if signs.has(Sign::Made) {
            SetupFrames::Make
        } else {
            SetupFrames::Other
        }
    }

    fn forward_stack(
        &self,
        a: &RecordedAllocation,
        interval: PhaseInterval,
        signs: StackSigns,
    ) -> ForwardStack {
        match a.stack {
            _ if self.main_stream.is_some() => ForwardStack::Unrecorded,
            Some(stack) if !interval.is_before_backward() && self.growing.contains(&stack) => {
                ForwardStack::Grows
            }
            Some(_) if signs.runs.is_none() && interval.next_phase == Some(Phase::Forward) => {
                ForwardStack::OwnCodeBeforeForward
            }
            _ => ForwardStack::Other,
        }
    }

    /// Returns when `a`, which was made in a forward pass or between passes, was freed.
    fn pass_free(&self, phases: &Phases, a: &RecordedAllocation, interval: PhaseInterval) -> PassFree {
        match pass_end(phases, a, interval) {
            PassEnd::Within => PassFree::Within(self.ahead(interval)),
            PassEnd::Before => PassFree::Before(self.ahead(interval)),
            PassEnd::InBackward => PassFree::InBackward,
            PassEnd::Later if !interval.is_before_backward() => PassFree::AfterForward,
            PassEnd::Later if phases.freed(a, interval) == NEVER => PassFree::Never,
            PassEnd::Later if self.is_turned_into_another(a, interval) => {
                PassFree::AfterBackward(Use::TurnedIntoAnother)
            }
            PassEnd::Later => PassFree::AfterBackward(Use::Unknown),
            PassEnd::Open(freed) => PassFree::Open(self.ahead(interval), freed),
        }
    }

    /// Whether the backward pass retained another tensor of the same size (or twice the bytes) that the forward pass made soon
    /// after `a`. A softmax makes such a tensor from its argument, in the same precision or in one with twice as many bytes.
    fn is_turned_into_another(&self, a: &RecordedAllocation, interval: PhaseInterval) -> bool {
        let after = self.kept.partition_point(|&(made, _)| made <= event(a));
        let soon = self.kept[after..].iter().take(SOON).take_while(|&&(made, _)| made < interval.backward.0);
        soon.into_iter().any(|&(_, size)| {
            // A language model leaves out the last token.
            let about = |whole: u64| size <= whole && size >= whole - whole / 8;
            about(a.requested) || about(a.requested.saturating_mul(2))
        })
    }
}

/// A tensor made from a result is among this many retained tensors after it.
const SOON: usize = 3;

/// Returns the stacks of the program's own code that make, in one interval, about one retained allocation for each gradient.
/// These have the size of one of `gradients`, or twice as many bytes. At least two thirds of the allocations that a backward pass
/// retains on average must be matched; `left_behind` is their total number.
fn for_each_gradient(
    history: &History,
    phases: &Phases,
    gradients: &HashSet<u64>,
    left_behind: usize,
) -> HashSet<StackId> {
    let mut made: HashMap<(StackId, u32), usize> = HashMap::new();
    phases.each(history, |a, interval| {
        if interval.phase == Phase::Between
            && (gradients.contains(&a.requested) || gradients.contains(&(a.requested / 2)))
            && matches!(pass_end(phases, a, interval), PassEnd::Later | PassEnd::Open(_))
            && let Some(stack) = a.stack
        {
            *made.entry((stack, interval.from)).or_default() += 1;
        }
    });
    let in_each = left_behind / phases.backward_passes().max(1);
    let is_enough = |count: usize| count >= 2 && count * 3 >= in_each * 2;
    made.into_iter().filter(|&(_, count)| is_enough(count)).map(|((stack, _), _)| stack).collect()
}

/// Returns the tensors read from files that are copies of parameters, by event. Of each size, a checkpoint has as many tensors as modules have
/// parameters; with the states of Adam, which programs save after the model, it has two more for each, and a file of states alone has those.
fn loaded_weights(history: &History, signs: &Signs, modules: &HashMap<u64, usize>) -> HashSet<u32> {
    let mut loaded: HashMap<u64, Vec<u32>> = HashMap::new();
    for a in history.recorded().filter(|a| signs.get(a.stack).has(Sign::Read)) {
        loaded.entry(a.requested).or_default().push(event(a));
    }
    let of_size = |(size, events): (u64, Vec<u32>)| {
        let parameters = modules.get(&size).copied().unwrap_or_default();
        let has_states_alone = parameters > 0 && events.len() == 2 * parameters;
        events.into_iter().take(if has_states_alone { 0 } else { parameters })
    };
    loaded.into_iter().flat_map(of_size).collect()
}

/// Returns the allocations by the optimizer right before a parameter of the same size was freed, by event: the program bound the parameter
/// to a new tensor.
fn rebound_parameters(history: &History, phases: &Phases, signs: &Signs) -> HashSet<u32> {
    // The parameters so far, by the event before which each was freed.
    let mut freed: BTreeMap<u32, u64> = BTreeMap::new();
    let mut rebound = HashSet::new();
    let mut last: Option<&RecordedAllocation> = None;
    let mut see = |next: u32, last: Option<&RecordedAllocation>, freed: &mut BTreeMap<u32, u64>| {
        let Some(made) = last else { return };
        if freed.range(event(made)..next).any(|(_, &size)| size == made.requested) {
            rebound.insert(event(made));
            freed.insert(event_before(made.freed), made.requested);
        }
    };
    phases.each(history, |a, interval| {
        see(event(a), last.take(), &mut freed);
        let of_module = |signs: StackSigns| signs.has(Sign::Made) || signs.has(Sign::Moved);
        if interval.phase == Phase::Optimizer {
            last = Some(a);
        } else if of_module(signs.get(a.stack)) {
            freed.insert(event_before(a.freed), a.requested);
        }
    });
    see(NEVER, last, &mut freed);
    rebound
}

/// The growth of one stack's sizes from forward pass to forward pass.
#[derive(Default)]
struct Growth {
    /// The last pass, and the size in it.
    last: (u32, u64),
    passes: usize,
    made: usize,
    rises: usize,
}

/// The smallest number of passes that shows growth.
const GROWING_PASSES: usize = 3;

impl Growth {
    fn add(&mut self, pass: u32, size: u64) {
        if self.passes == 0 || pass != self.last.0 {
            self.rises += usize::from(self.passes > 0 && size > self.last.1);
            self.passes += 1;
            self.last = (pass, size);
        }
        self.made += 1;
    }

    /// Whether the stack makes several allocations per pass, larger in nearly each pass; a new sequence starts small again.
    fn is_steady(&self) -> bool {
        self.rises >= GROWING_PASSES
            && self.rises * 4 >= (self.passes - 1) * 3
            && self.made >= self.passes * 2
    }
}

/// [`PassFree`], as far as the phases alone show it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassEnd {
    Within,
    Before,
    InBackward,
    Later,
    Open(OpenFree),
}

/// Returns when `a`, which was made in a forward pass or between passes, was freed.
fn pass_end(phases: &Phases, a: &RecordedAllocation, interval: PhaseInterval) -> PassEnd {
    if let Some(freed) = open_free(phases, a, interval) {
        return PassEnd::Open(freed);
    }
    let freed = event_before(a.freed);
    // If no backward pass follows, a result may be retained until the next forward pass has made another.
    let before = if interval.is_before_backward() { interval.backward.0 } else { interval.second_forward };
    match phases.given(freed) {
        _ if freed < interval.end => PassEnd::Within,
        _ if freed < before => PassEnd::Before,
        Given::InBackward | Given::AtItsEnd => PassEnd::InBackward,
        Given::Elsewhere => PassEnd::Later,
    }
}

/// Returns when `a` was freed if the recording ends too early to show its end.
fn open_free(phases: &Phases, a: &RecordedAllocation, interval: PhaseInterval) -> Option<OpenFree> {
    let freed = if a.freed == Moment::NEVER { OpenFree::Never } else { OpenFree::AtEnd };
    phases.is_open(a, interval).then_some(freed)
}

/// Returns when `a`, which was made during setup or by the optimizer, was freed.
fn step_free(phases: &Phases, a: &RecordedAllocation, interval: PhaseInterval) -> StepFree {
    match phases.freed(a, interval) {
        freed if freed < interval.last => StepFree::Within,
        freed if freed < interval.end => StepFree::AtEnd,
        NEVER if interval.end == NEVER => StepFree::Open,
        NEVER => StepFree::Never,
        _ => StepFree::Later,
    }
}

/// Returns when `a`, which was made during setup, was freed. Without stacks, the setup may consist of several parts, such as a model that is
/// loaded and then converted. So only tensors that are freed soon count as freed in the same part.
fn setup_free(phases: &Phases, a: &RecordedAllocation, interval: PhaseInterval) -> StepFree {
    match step_free(phases, a, interval) {
        StepFree::Within | StepFree::AtEnd
            if phases.known_from == Some(PhasesFrom::Repetition)
                && event_before(a.freed) - event(a) > SOON_IN_SETUP =>
        {
            StepFree::Later
        }
        freed => freed,
    }
}

/// See [`setup_free`]; in events.
const SOON_IN_SETUP: u32 = 64;

/// Returns the events of allocations of cuBLASLt workspaces, as their sizes and their order show them.
fn lt_workspaces(history: &History) -> HashSet<u32> {
    let with_before = history.recorded().zip(std::iter::once(None).chain(history.recorded().map(Some)));
    with_before.filter(|(a, before)| is_lt_workspace(a, *before)).map(|(a, _)| event(a)).collect()
}

/// Returns the stream with most of the allocated bytes.
fn main_stream(history: &History) -> u64 {
    let mut bytes: HashMap<u64, u64> = HashMap::new();
    for a in history.recorded() {
        *bytes.entry(a.stream).or_default() += a.size;
    }
    bytes.into_iter().max_by_key(|&(stream, bytes)| (bytes, stream)).map_or(0, |(stream, _)| stream)
}

/// Returns when `a`, which was made in a backward pass, was freed.
fn backward_free(phases: &Phases, a: &RecordedAllocation, interval: PhaseInterval) -> BackwardFree {
    match step_free(phases, a, interval) {
        StepFree::Within => BackwardFree::Within,
        StepFree::AtEnd => BackwardFree::AtEnd,
        StepFree::Later if phases.given(event_before(a.freed)) == Given::InBackward => {
            BackwardFree::InBackward
        }
        StepFree::Later => BackwardFree::Later,
        StepFree::Never => BackwardFree::Never,
        StepFree::Open => BackwardFree::Open,
    }
}

/// Returns when `a`, which was recomputed in a backward pass, was freed.
fn recompute_free(a: &RecordedAllocation, interval: PhaseInterval) -> RecomputeFree {
    match event_before(a.freed) {
        freed if freed < interval.next => RecomputeFree::Within,
        _ if interval.next == NEVER => RecomputeFree::Open,
        freed if freed < interval.end || interval.end == NEVER => RecomputeFree::InBackward,
        _ => RecomputeFree::Later,
    }
}
