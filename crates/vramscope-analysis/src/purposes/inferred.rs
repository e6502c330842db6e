//! What allocations are for, told from stacks, lifetimes and what repeats.

use hashbrown::{HashMap, HashSet};
use vramscope_trace::{FrameId, StackId};

use crate::history::{Allocation, History};
use crate::moment::Moment;
use crate::purposes::phases::{Given, NEVER, Phase, Phases, Stretch, ToldBy, event, event_before};
use crate::purposes::rules::{Basis, CATEGORY_RULES, CategoryRule, Facts, Fate, decide};
use crate::purposes::signs::{Sign, Signs};
use crate::purposes::turns::Turns;

/// The verdict on each allocation that was recorded.
#[derive(Debug, Default)]
pub(super) struct Inferred {
    /// What the phases stand on.
    phases: Option<ToldBy>,
    turns: Turns,
    /// By the event of the allocation: a number in [`CATEGORY_RULES`], and [`LIKE_OTHERS`].
    of_event: Vec<u8>,
}

/// Set where a verdict is that on others of the same stack and size.
const LIKE_OTHERS: u8 = 0x80;

const _: () = assert!(CATEGORY_RULES.len() <= LIKE_OTHERS as usize);

impl Inferred {
    pub(super) fn of(history: &History) -> Self {
        let signs = Signs::of(history.trace());
        let phases = Phases::of(history, &signs);
        let known = Known::of(history, signs, &phases);
        let mut this = Self {
            phases: phases.told_by,
            turns: phases.turns(history),
            of_event: vec![0; history.device().events.len()],
        };
        // Those whose fate is open at the end of the recording are told by others like them.
        let mut like: HashMap<(Likeness, Phase), Others> = HashMap::new();
        phases.each(history, |a, stretch| {
            if phases.is_open(a, stretch) {
                like.entry((likeness(a), stretch.phase)).or_default();
            }
            this.set(a, decide(&known.facts(&phases, a, stretch)));
        });
        if like.is_empty() {
            return this;
        }
        phases.each(history, |a, stretch| {
            let Some(others) = like.get_mut(&(likeness(a), stretch.phase)) else { return };
            let verdict = others.next(stretch.from);
            if !phases.is_open(a, stretch) {
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

    fn set(&mut self, a: &Allocation, verdict: u8) {
        if let Some(slot) = self.of_event.get_mut(event(a) as usize) {
            *slot = verdict;
        }
    }

    /// How often the program went round.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The rule that decided on an allocation that was recorded, and by what.
    pub(super) fn verdict(&self, a: &Allocation) -> Option<(&'static CategoryRule, Basis)> {
        let number = self.at(event(a))?;
        let rule = CATEGORY_RULES.get((number & !LIKE_OTHERS) as usize)?;
        let basis = match self.phases {
            Some(ToldBy::Rhythm) => Basis::Rhythm,
            _ if number & LIKE_OTHERS != 0 => Basis::Others,
            _ => Basis::Itself,
        };
        Some((rule, basis))
    }
}

/// What allocations of one kind share.
type Likeness = (Option<StackId>, u64);

fn likeness(a: &Allocation) -> Likeness {
    (a.stack, a.requested)
}

/// The verdicts on those of one kind, by their position among them in one stretch: one line may make several, each for something else.
#[derive(Default)]
struct Others {
    verdicts: Vec<Option<u8>>,
    /// The first event of the stretch under way, and how many were made in it.
    stretch: u32,
    made: usize,
}

impl Others {
    /// The verdict on the last one at the position of the next one, which is made in the stretch that begins at `from`.
    fn next(&mut self, from: u32) -> &mut Option<u8> {
        if self.stretch != from {
            (self.stretch, self.made) = (from, 0);
        }
        let position = self.made;
        self.made += 1;
        if self.verdicts.len() == position {
            self.verdicts.push(None);
        }
        &mut self.verdicts[position]
    }
}

/// What is known of a recording as a whole.
struct Known {
    signs: Signs,
    /// Sizes of parameters, as they were asked for; empty where none is known.
    parameters: HashSet<u64>,
    /// Sizes of what backward passes left behind.
    gradients: HashSet<u64>,
    /// The line of `Module._apply` that moves buffers: the last of several. Parameters come first there.
    moves_buffers: Option<FrameId>,
    /// Something tells what the program was doing.
    phases_are_known: bool,
    /// The first events of forward passes that no backward pass follows, and that keep much of what they make.
    keeping: HashSet<u32>,
    /// Sizes of what modules made, loaded or moved.
    modules: HashSet<u64>,
    /// What the program's own code makes after a backward pass, too.
    again: HashSet<Likeness>,
    /// What the forward pass made for the backward pass, in order: event and size.
    kept: Vec<(u32, u64)>,
    /// Where about one is made for each gradient.
    for_each_gradient: HashSet<StackId>,
    /// Where forward passes make what grows from pass to pass.
    growing: HashSet<StackId>,
}

/// What PyTorch gives cuBLAS to work in, in bytes: 8 x 4096 KiB on Hopper, 2 x 4096 KiB + 8 x 16 KiB on others
/// (`parseChosenWorkspaceSize`, `aten/src/ATen/cuda/CublasHandlePool.cpp`, PyTorch 2.11).
const WORKSPACES: [u64; 2] = [8 * 4096 * 1024, 2 * 4096 * 1024 + 8 * 16 * 1024];

fn is_as_large_as_a_workspace(a: &Allocation) -> bool {
    WORKSPACES.contains(&a.requested)
}

/// Of the bytes that a forward pass makes for a backward pass, this share is there when it ends at least; one without a backward pass
/// gives nearly all of it back. In recordings of training it is about a half.
const KEPT_FOR_BACKWARD: f64 = 0.2;

impl Known {
    fn of(history: &History, signs: Signs, phases: &Phases) -> Self {
        let (mut parameters, mut gradients) = (HashSet::new(), HashSet::new());
        let mut left_behind = 0;
        let mut passes: HashMap<u32, (u64, u64)> = HashMap::new();
        let (mut modules, mut again, mut kept) = (HashSet::new(), HashSet::new(), Vec::new());
        let mut growth: HashMap<StackId, Growth> = HashMap::new();
        phases.each(history, |a, stretch| {
            let fate = fate(phases, a, stretch);
            match stretch.phase {
                Phase::Between if stretch.after_backward => {
                    again.insert(likeness(a));
                }
                Phase::Forward if fate == Fate::InBackward => kept.push((event(a), a.requested)),
                Phase::Forward if stretch.backward.0 == NEVER && fate != Fate::Within => {
                    if let Some(stack) = a.stack {
                        growth.entry(stack).or_default().add(stretch.from, a.requested);
                    }
                }
                _ => {}
            }
            match stretch.phase {
                Phase::Setup if fate != Fate::Within => {
                    let signs = signs.get(a.stack);
                    if signs.has(Sign::Made) || signs.has(Sign::Moved) {
                        modules.insert(a.requested);
                    }
                    parameters.insert(a.requested);
                }
                Phase::Backward
                    if fate == Fate::Later
                        && !(is_as_large_as_a_workspace(a) && a.freed == Moment::NEVER) =>
                {
                    gradients.insert(a.requested);
                    left_behind += 1;
                }
                Phase::Forward if stretch.backward.0 == NEVER => {
                    let (made, kept) = passes.entry(stretch.from).or_default();
                    *made += a.size;
                    *kept += if fate == Fate::Open { a.size } else { 0 };
                }
                _ => {}
            }
        });
        if parameters.is_empty() {
            parameters.extend(history.allocations.iter().filter(|a| a.is_preexisting()).map(|a| a.requested));
        }
        let keeps = |&(_, (made, kept)): &(u32, (u64, u64))| kept as f64 >= made as f64 * KEPT_FOR_BACKWARD;
        let keeping = passes.into_iter().filter(keeps).map(|(from, _)| from).collect();
        let growing = growth.into_iter().filter(|(_, g)| g.is_steady()).map(|(stack, _)| stack).collect();
        Self {
            modules,
            again,
            kept,
            for_each_gradient: for_each_gradient(history, phases, &gradients, left_behind),
            growing,
            moves_buffers: signs.last_move(history.trace()),
            signs,
            parameters,
            gradients,
            phases_are_known: phases.told_by.is_some(),
            keeping,
        }
    }

    fn facts(&self, phases: &Phases, a: &Allocation, stretch: Stretch) -> Facts {
        let signs = self.signs.get(a.stack);
        let fate = fate(phases, a, stretch);
        let is_at = |stacks: &HashSet<StackId>| a.stack.is_some_and(|stack| stacks.contains(&stack));
        Facts {
            signs,
            phase: stretch.phase,
            fate,
            backward_follows: stretch.backward.0 != NEVER,
            is_as_large_as_a_parameter: (!self.parameters.is_empty())
                .then(|| self.parameters.contains(&a.requested)),
            is_as_large_as_a_gradient: self.gradients.contains(&a.requested),
            is_moved_as_buffer: self.moves_buffers.is_some() && signs.moved_at == self.moves_buffers,
            is_as_large_as_a_workspace: is_as_large_as_a_workspace(a),
            is_for_good: a.freed == Moment::NEVER,
            phases_are_known: self.phases_are_known,
            pass_keeps: fate == Fate::Open && self.keeping.contains(&stretch.from),
            is_of_own_code: a.stack.is_some() && signs.runs.is_none(),
            another_forward_follows: stretch.another_forward_follows,
            after_backward: stretch.after_backward,
            comes_again: matches!(stretch.phase, Phase::Between | Phase::Setup)
                && self.again.contains(&likeness(a)),
            is_as_large_as_a_modules: self.modules.contains(&a.requested),
            is_turned_into_another: fate == Fate::Later && self.is_turned_into_another(a, stretch),
            is_one_for_each_gradient: is_at(&self.for_each_gradient),
            optimizer_follows: stretch.optimizer_follows,
            grows: is_at(&self.growing),
        }
    }

    /// Whether something as large as `a`, which a forward pass made, was kept for the backward pass soon after it: what a softmax makes
    /// of its argument, in the same precision or in twice as many bytes.
    fn is_turned_into_another(&self, a: &Allocation, stretch: Stretch) -> bool {
        let after = self.kept.partition_point(|&(made, _)| made <= event(a));
        let soon = self.kept[after..].iter().take(SOON).take_while(|&&(made, _)| made < stretch.backward.0);
        soon.into_iter().any(|&(_, size)| {
            // A language model leaves out the last token.
            let about = |whole: u64| size <= whole && size >= whole - whole / 8;
            about(a.requested) || about(a.requested.saturating_mul(2))
        })
    }
}

/// What was made of a result is among so many that were kept after it.
const SOON: usize = 3;

/// The stacks of the program's own code that make in one stretch about one for each gradient, as large as one of `gradients` or in
/// twice as many bytes, and all are kept: two thirds of what a pass leaves behind of all that were `left_behind`.
fn for_each_gradient(
    history: &History,
    phases: &Phases,
    gradients: &HashSet<u64>,
    left_behind: usize,
) -> HashSet<StackId> {
    let mut made: HashMap<(StackId, u32), usize> = HashMap::new();
    phases.each(history, |a, stretch| {
        if stretch.phase == Phase::Between
            && (gradients.contains(&a.requested) || gradients.contains(&(a.requested / 2)))
            && matches!(fate(phases, a, stretch), Fate::Later | Fate::Open)
            && let Some(stack) = a.stack
        {
            *made.entry((stack, stretch.from)).or_default() += 1;
        }
    });
    let in_each = left_behind / phases.backward_passes().max(1);
    let is_enough = |count: usize| count >= 2 && count * 3 >= in_each * 2;
    made.into_iter().filter(|&(_, count)| is_enough(count)).map(|((stack, _), _)| stack).collect()
}

/// How the sizes of what one stack makes go from forward pass to forward pass.
#[derive(Default)]
struct Growth {
    /// The last pass, and the size in it.
    last: (u32, u64),
    passes: usize,
    made: usize,
    rises: usize,
}

/// So many passes tell that something grows, at least.
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

    /// It makes several a pass, larger in nearly each: another sequence begins small again.
    fn is_steady(&self) -> bool {
        self.rises >= GROWING_PASSES
            && self.rises * 4 >= (self.passes - 1) * 3
            && self.made >= self.passes * 2
    }
}

/// When `a`, which was made in `stretch`, was given back.
fn fate(phases: &Phases, a: &Allocation, stretch: Stretch) -> Fate {
    let freed = event_before(a.freed);
    let (backward, _) = stretch.backward;
    match stretch.phase {
        Phase::Forward | Phase::Between if phases.is_open(a, stretch) => Fate::Open,
        Phase::Forward | Phase::Between if freed < stretch.end => Fate::Within,
        // Where no backward pass follows, a result may be there until the next forward pass has made another.
        Phase::Forward | Phase::Between
            if freed < backward && (backward != NEVER || freed < stretch.second_forward) =>
        {
            Fate::BeforeBackward
        }
        Phase::Forward | Phase::Between => match phases.given(freed) {
            Given::InBackward | Given::AtItsEnd => Fate::InBackward,
            Given::Elsewhere => Fate::Later,
        },
        Phase::Recompute if freed < stretch.next => Fate::Within,
        Phase::Recompute if stretch.next == NEVER => Fate::Open,
        Phase::Recompute if freed < stretch.end || stretch.end == NEVER => Fate::InBackward,
        _ if freed < stretch.last => Fate::Within,
        _ if freed < stretch.end => Fate::AtEnd,
        _ if stretch.end == NEVER && freed == NEVER => Fate::Open,
        Phase::Backward if phases.given(freed) == Given::InBackward => Fate::InBackward,
        _ => Fate::Later,
    }
}
