//! What allocations are for, told from stacks, lifetimes and what repeats.

use hashbrown::{HashMap, HashSet};
use vramscope_trace::{FrameId, StackId};

use crate::history::{Allocation, History};
use crate::moment::Moment;
use crate::purposes::phases::{NEVER, Phase, Phases, Stretch, ToldBy, event, event_before};
use crate::purposes::rules::{Basis, CATEGORY_RULES, CategoryRule, Facts, Fate, decide};
use crate::purposes::signs::Signs;
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
        let mut open: Vec<&Allocation> = Vec::new();
        phases.each(history, |a, stretch| {
            let facts = known.facts(a, stretch);
            if facts.fate == Fate::Open {
                open.push(a);
            }
            this.set(a, decide(&facts));
        });
        let mut like: HashMap<Likeness, Option<u8>> = open.iter().map(|a| (likeness(a), None)).collect();
        if like.is_empty() {
            return this;
        }
        phases.each(history, |a, stretch| {
            if fate(a, stretch) != Fate::Open
                && let Some(like) = like.get_mut(&likeness(a))
            {
                *like = this.at(event(a));
            }
        });
        for a in open {
            if let Some(&Some(verdict)) = like.get(&likeness(a)) {
                this.set(a, verdict | LIKE_OTHERS);
            }
        }
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
}

/// What PyTorch gives cuBLAS to work in, in bytes: 8 x 4096 KiB on Hopper, 2 x 4096 KiB + 8 x 16 KiB on others
/// (`parseChosenWorkspaceSize`, `aten/src/ATen/cuda/CublasHandlePool.cpp`, PyTorch 2.11).
const WORKSPACES: [u64; 2] = [8 * 4096 * 1024, 2 * 4096 * 1024 + 8 * 16 * 1024];

/// Of the bytes that a forward pass makes for a backward pass, this share is there when it ends at least; one without a backward pass
/// gives nearly all of it back. In recordings of training it is about a half.
const KEPT_FOR_BACKWARD: f64 = 0.2;

impl Known {
    fn of(history: &History, signs: Signs, phases: &Phases) -> Self {
        let (mut parameters, mut gradients) = (HashSet::new(), HashSet::new());
        let mut passes: HashMap<u32, (u64, u64)> = HashMap::new();
        phases.each(history, |a, stretch| {
            let fate = fate(a, stretch);
            match stretch.phase {
                Phase::Setup if fate != Fate::Within => {
                    parameters.insert(a.requested);
                }
                Phase::Backward if fate == Fate::Later => {
                    gradients.insert(a.requested);
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
        Self {
            moves_buffers: signs.last_move(history.trace()),
            signs,
            parameters,
            gradients,
            phases_are_known: phases.told_by.is_some(),
            keeping,
        }
    }

    fn facts(&self, a: &Allocation, stretch: Stretch) -> Facts {
        let signs = self.signs.get(a.stack);
        Facts {
            signs,
            phase: stretch.phase,
            fate: fate(a, stretch),
            backward_follows: stretch.backward.0 != NEVER,
            is_as_large_as_a_parameter: (!self.parameters.is_empty())
                .then(|| self.parameters.contains(&a.requested)),
            is_as_large_as_a_gradient: self.gradients.contains(&a.requested),
            is_moved_as_buffer: self.moves_buffers.is_some() && signs.moved_at == self.moves_buffers,
            is_as_large_as_a_workspace: WORKSPACES.contains(&a.requested),
            is_for_good: a.freed == Moment::NEVER,
            phases_are_known: self.phases_are_known,
            pass_keeps: self.keeping.contains(&stretch.from),
        }
    }
}

/// When `a`, which was made in `stretch`, was given back.
fn fate(a: &Allocation, stretch: Stretch) -> Fate {
    let freed = event_before(a.freed);
    let (backward, behind) = stretch.backward;
    match stretch.phase {
        Phase::Forward | Phase::Between if backward == NEVER && freed == NEVER => Fate::Open,
        Phase::Forward | Phase::Between if freed < backward => {
            // Where no backward pass follows, a result may be there until the next forward pass has made another.
            match freed {
                _ if freed < stretch.end => Fate::Within,
                _ if freed < stretch.second_forward || backward != NEVER => Fate::BeforeBackward,
                _ => Fate::Later,
            }
        }
        // Where the recording ends in the backward pass, it was there when the pass began.
        Phase::Forward | Phase::Between if freed < behind || behind == NEVER => Fate::InBackward,
        Phase::Forward | Phase::Between => Fate::Later,
        Phase::Recompute if freed < stretch.next => Fate::Within,
        Phase::Recompute if stretch.next == NEVER => Fate::Open,
        Phase::Recompute if freed < stretch.end || stretch.end == NEVER => Fate::InBackward,
        _ if freed < stretch.last => Fate::Within,
        _ if freed < stretch.end => Fate::AtEnd,
        _ if stretch.end == NEVER && freed == NEVER => Fate::Open,
        Phase::Backward if freed >= backward && freed < behind => Fate::InBackward,
        _ => Fate::Later,
    }
}
