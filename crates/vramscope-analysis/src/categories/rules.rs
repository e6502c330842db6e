//! The rules that infer the category of an allocation if the recording does not contain it.

use vramscope_trace::Category;

use crate::categories::facts::{
    Ahead, AllocatedIn, AllocationFacts, BackwardFree, BetweenStack, ForwardStack, KnownSize, OpenFree,
    ParameterSize, PassFree, RecomputeFree, Retained, SetupFrames, StepFree, Stream, Turn, UnphasedFree, Use,
};
use crate::categories::signs::Sign;

/// A rule that assigns a category to all allocations that it applies to.
#[derive(Debug)]
pub struct CategoryRule {
    /// A short description of the allocations that the rule applies to.
    pub name: &'static str,
    /// The category of these allocations.
    pub category: Category,
    /// The reason, as a clause in which "it" is the allocation.
    pub because: &'static str,
    /// The evidence that the rule uses.
    pub evidence: Evidence,
    holds: fn(&AllocationFacts) -> bool,
}

/// Rules are equal if their names are; each rule has a unique name.
impl PartialEq for CategoryRule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CategoryRule {}

/// The evidence for a category, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Evidence {
    /// None: the category is unknown.
    Nothing,
    /// The categories of similar allocations.
    Likeness,
    /// The time of the free.
    Lifetime,
    /// Frames in the stack.
    Frames,
    /// The recorded category.
    Said,
}

impl Evidence {
    /// All kinds of evidence, strongest first.
    pub const ALL: [Self; 5] = [Self::Said, Self::Frames, Self::Lifetime, Self::Likeness, Self::Nothing];

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Frames => "frames",
            Self::Lifetime => "lifetime",
            Self::Likeness => "likeness",
            Self::Nothing => "nothing",
        }
    }
}

/// The basis of a rule's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The allocation itself.
    Itself,
    /// Other allocations with the same stack and size: the recording ends before this one is freed.
    Others,
    /// The allocation itself, with phases that only the recording's rhythm shows, because it has no stacks.
    Rhythm,
}

const fn rule(
    name: &'static str,
    category: Category,
    evidence: Evidence,
    because: &'static str,
    holds: fn(&AllocationFacts) -> bool,
) -> CategoryRule {
    CategoryRule { name, category, because, evidence, holds }
}

use AllocatedIn::{Backward, Between, Forward, Optimizer, Recompute, Setup, Unphased};
use Category as C;
use Evidence as E;

/// All rules, in order; the first that applies decides. To add a rule, insert it at its place in the order and add an example to
/// the tests below.
pub static CATEGORY_RULES: &[CategoryRule] = &[
    rule("library workspace", C::Workspace, E::Frames, "cuBLAS allocated it as its workspace", |f| {
        f.has(Sign::Workspace)
    }),
    rule(
        "cuBLAS workspace, by size",
        C::Workspace,
        E::Likeness,
        "it has the size of a cuBLAS workspace, was allocated after the setup and was never freed",
        |f| {
            let is_never_freed = match f.allocated {
                Unphased(freed) => freed == UnphasedFree::Open(OpenFree::Never),
                Between { freed, .. } | Forward { freed, .. } => {
                    matches!(freed, PassFree::Never | PassFree::Open(_, OpenFree::Never))
                }
                Backward { freed, .. } => matches!(freed, BackwardFree::Never | BackwardFree::Open),
                Setup { .. } | Recompute { .. } | Optimizer { .. } => false,
            };
            f.size == KnownSize::Workspace && is_never_freed
        },
    ),
    rule(
        "tensors of other streams",
        C::Unknown,
        E::Nothing,
        "its stream is not that of the passes, and the recording has no stacks",
        |f| f.stream == Stream::Side,
    ),
    rule(
        "moved buffers",
        C::Buffer,
        E::Frames,
        "Module._apply moved it, at the line that moves buffers",
        |f| matches!(f.allocated, Setup { by: SetupFrames::MoveBuffer, .. }),
    ),
    rule(
        "moved parameters",
        C::Parameter,
        E::Frames,
        "Module._apply moved it to the device, or filled it",
        |f| matches!(f.allocated, Setup { by: SetupFrames::MoveBuffer | SetupFrames::Move, .. }),
    ),
    rule(
        "parameters of modules",
        C::Parameter,
        E::Frames,
        "a module allocated or loaded it and retained it",
        |f| matches!(f.allocated, Setup { by: SetupFrames::Make, freed, .. } if freed != StepFree::Within),
    ),
    rule(
        "temporaries of module setup",
        C::Temporary,
        E::Frames,
        "a module allocated it during its setup and freed it",
        |f| matches!(f.allocated, Setup { by: SetupFrames::Make, .. }),
    ),
    rule(
        "optimizer state",
        C::OptimizerState,
        E::Frames,
        "the optimizer allocated it as the state of a parameter",
        |f| f.has(Sign::OptimizerState) && f.retained() != Retained::Within,
    ),
    rule(
        "parameters bound anew by the optimizer",
        C::Parameter,
        E::Lifetime,
        "the optimizer allocated it, and a parameter of the same size was freed right after",
        |f| matches!(f.allocated, Optimizer { rebinds: true, .. }),
    ),
    rule(
        "copies of parameters",
        C::Parameter,
        E::Likeness,
        "it is a retained copy, or was read from a file, and a parameter has the same size",
        |f| {
            let is_copy = f.has(Sign::Copied) && !f.has(Sign::OptimizerState) || f.is_loaded_weight;
            is_copy && f.retained() != Retained::Within && f.is_as_large_as_a_parameter()
        },
    ),
    rule(
        "loaded optimizer state",
        C::OptimizerState,
        E::Likeness,
        "it was read from a file and retained, and a parameter of a module has the same size",
        |f| f.has(Sign::Read) && f.retained() == Retained::Long && f.parameter == ParameterSize::Module,
    ),
    rule(
        "buffers of collective operations",
        C::Communication,
        E::Frames,
        "a collective operation allocated it",
        |f| f.has(Sign::Communication),
    ),
    rule(
        "key-value caches",
        C::KvCache,
        E::Frames,
        "a key-value cache allocated it, and no backward pass follows",
        |f| f.has(Sign::KvCache) && !f.allocated.is_before_backward(),
    ),
    rule(
        "tensors that grow from pass to pass",
        C::KvCache,
        E::Likeness,
        "each forward pass allocates several such tensors at one place, larger each time, and retains them for the next pass",
        |f| {
            matches!(f.allocated, Forward { stack: ForwardStack::Grows, .. })
                && f.retained() != Retained::Within
        },
    ),
    rule(
        "tensors retained by the optimizer",
        C::OptimizerState,
        E::Lifetime,
        "the optimizer allocated it, and retained it after its step",
        |f| matches!(f.allocated, Optimizer { freed: StepFree::Later | StepFree::Never, .. }),
    ),
    rule(
        "tensors not freed by the last optimizer step",
        C::OptimizerState,
        E::Likeness,
        "the optimizer allocated it, and it was still allocated when the recording ended",
        |f| matches!(f.allocated, Optimizer { freed: StepFree::Open, .. }),
    ),
    rule(
        "temporaries of the optimizer step",
        C::Temporary,
        E::Lifetime,
        "the optimizer freed it within its step",
        |f| matches!(f.allocated, Optimizer { freed: StepFree::Within | StepFree::AtEnd, .. }),
    ),
    rule("accumulated gradients", C::Gradient, E::Frames, "AccumulateGrad allocated it", |f| {
        f.has(Sign::Accumulate) && f.retained() != Retained::Within
    }),
    rule(
        "tensors of parameter size retained by the backward pass",
        C::Gradient,
        E::Lifetime,
        "the backward pass allocated and retained it, and a parameter has the same size",
        |f| {
            let is_retained = matches!(
                f.allocated,
                Backward {
                    freed: BackwardFree::AtEnd
                        | BackwardFree::Later
                        | BackwardFree::Never
                        | BackwardFree::Open,
                    ..
                }
            );
            is_retained && f.is_as_large_as_a_parameter()
        },
    ),
    rule(
        "tensors passed from one backward pass to another",
        C::Activation,
        E::Lifetime,
        "a backward pass allocated it, and a later one freed it",
        |f| matches!(f.allocated, Backward { freed: BackwardFree::InBackward, .. }),
    ),
    rule(
        "tensors retained by the backward pass",
        C::Gradient,
        E::Lifetime,
        "the backward pass allocated and retained it",
        |f| matches!(f.allocated, Backward { freed: BackwardFree::Later | BackwardFree::Never, .. }),
    ),
    rule(
        "temporaries of the backward pass",
        C::Temporary,
        E::Lifetime,
        "the backward pass freed it before it ended",
        |f| matches!(f.allocated, Backward { freed: BackwardFree::Within | BackwardFree::AtEnd, .. }),
    ),
    rule(
        // It exists only for a moment within the backward pass, which is the purpose of checkpoints; the Python package uses the
        // same category.
        "tensors recomputed for the backward pass",
        C::Temporary,
        E::Lifetime,
        "a checkpoint recomputed it, and the backward pass used it",
        |f| matches!(f.allocated, Recompute { freed: RecomputeFree::InBackward | RecomputeFree::Later, .. }),
    ),
    rule(
        "temporaries of recomputation",
        C::Temporary,
        E::Lifetime,
        "it was freed before the backward pass could use it",
        |f| matches!(f.allocated, Recompute { freed: RecomputeFree::Within, .. }),
    ),
    rule(
        "batches",
        C::Input,
        E::Lifetime,
        "the program allocated it before the forward pass, which used it",
        |f| {
            matches!(
                f.allocated,
                Between { freed: PassFree::InBackward | PassFree::Open(Ahead::Backward, _), .. }
            )
        },
    ),
    rule(
        "tensors saved for the backward pass",
        C::Activation,
        E::Lifetime,
        "the forward pass allocated it, and the backward pass freed it",
        |f| matches!(f.allocated, Forward { freed: PassFree::InBackward, .. }),
    ),
    rule(
        "tensors not freed by the last backward pass",
        C::Activation,
        E::Likeness,
        "the forward pass allocated it, and it was still allocated when the recording ended in the backward pass",
        |f| matches!(f.allocated, Forward { freed: PassFree::Open(Ahead::Backward, _), .. }),
    ),
    rule(
        "batches for another pass",
        C::Input,
        E::Lifetime,
        "the program allocated it between two forward passes, and it was still allocated in the second",
        |f| match f.allocated {
            Forward { freed, stack: ForwardStack::OwnCodeBeforeForward } => {
                !matches!(freed, PassFree::Within(_) | PassFree::Open(..))
            }
            _ => false,
        },
    ),
    rule(
        "results that outlive the backward pass",
        C::Temporary,
        E::Lifetime,
        "the forward pass allocated it, and the program retained it to the end, or beyond a backward pass that used a tensor computed from it",
        |f| {
            match f.allocated {
                Forward { freed: PassFree::AfterBackward(Use::TurnedIntoAnother), .. } => true,
                // Without stacks, it may also belong to an optimizer step that was not found.
                Forward { freed: PassFree::Never, stack } => stack != ForwardStack::Unrecorded,
                _ => false,
            }
        },
    ),
    rule(
        "results that the backward pass may need",
        C::Activation,
        E::Likeness,
        "the forward pass allocated it, the program retained it beyond the backward pass, and no other retained tensor was computed from it",
        |f| matches!(f.allocated, Forward { freed: PassFree::AfterBackward(Use::Unknown), .. }),
    ),
    rule(
        "gradients that the program makes for its optimizer",
        C::Gradient,
        E::Likeness,
        "the program allocated it between the backward pass and the optimizer, one for each gradient, and retained it",
        |f| for_each_gradient(f).is_some_and(|turn| turn == Turn::BeforeOptimizer),
    ),
    rule(
        "state of a custom optimizer",
        C::OptimizerState,
        E::Likeness,
        "the program allocated it after a backward pass, one for each gradient, and retained it",
        |f| for_each_gradient(f).is_some_and(|turn| turn == Turn::AfterBackward),
    ),
    rule(
        "parameters outside modules",
        C::Parameter,
        E::Likeness,
        "it was allocated before the forward pass and retained, and a gradient has the same size",
        |f| {
            let is_kept = match f.allocated {
                Setup { freed, turn: Turn::First, .. } => matches!(freed, StepFree::Later | StepFree::Never),
                Between { freed, turn: Turn::First, .. } => {
                    f.retained() == Retained::Long && !matches!(freed, PassFree::Open(..))
                }
                _ => false,
            };
            is_kept && f.size == KnownSize::Gradient
        },
    ),
    rule(
        "parameters in another precision",
        C::Parameter,
        E::Likeness,
        "the program allocated it before the first step, one for each gradient, and retained it",
        |f| for_each_gradient(f).is_some(),
    ),
    rule(
        "parameters made before the first step",
        C::Parameter,
        E::Likeness,
        "it was allocated before the first step and never freed",
        |f| matches!(f.allocated, Setup { freed: StepFree::Never | StepFree::Open, .. }),
    ),
    rule(
        "retained batches",
        C::Input,
        E::Lifetime,
        "the program allocated it before the forward pass and retained it",
        |f| matches!(f.allocated, Between { freed: PassFree::AfterBackward(_) | PassFree::Never, .. }),
    ),
    rule(
        "tensors accumulated by a forward pass",
        C::Activation,
        E::Likeness,
        "its forward pass retained much of its memory, as before a backward pass",
        |f| matches!(f.allocated, Forward { freed: PassFree::Open(Ahead::BackwardUnrecorded, _), .. }),
    ),
    rule(
        "short-lived tensors",
        C::Temporary,
        E::Lifetime,
        "it was freed before a backward pass could use it",
        |f| match f.allocated {
            Setup { freed, .. } => matches!(freed, StepFree::Within | StepFree::AtEnd),
            Between { freed, .. } | Forward { freed, .. } => {
                matches!(freed, PassFree::Within(_) | PassFree::Before(_))
            }
            Unphased(_) | Backward { .. } | Recompute { .. } | Optimizer { .. } => false,
        },
    ),
    rule(
        "tensors freed after the last pass",
        C::Temporary,
        E::Likeness,
        "it was allocated by a forward pass that retained little, and freed after that pass",
        |f| matches!(f.allocated, Forward { freed: PassFree::Open(Ahead::NoBackward, OpenFree::AtEnd), .. }),
    ),
    rule("unknown category", C::Unknown, E::Nothing, "the recording does not show its category", |_| true),
];

/// Returns the turn of an allocation that the program's own code retained, one for each gradient.
fn for_each_gradient(f: &AllocationFacts) -> Option<Turn> {
    match f.allocated {
        Between { stack: BetweenStack::OneForEachGradient, turn, .. } => {
            (f.retained() == Retained::Long).then_some(turn)
        }
        _ => None,
    }
}

/// Returns the index of the first rule that applies.
pub(super) fn decide(facts: &AllocationFacts) -> u8 {
    let found = CATEGORY_RULES.iter().position(|r| (r.holds)(facts)).unwrap_or(CATEGORY_RULES.len() - 1);
    u8::try_from(found).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categories::signs::StackSigns;

    fn facts(allocated: AllocatedIn) -> AllocationFacts {
        AllocationFacts {
            signs: StackSigns::default(),
            parameter: ParameterSize::NoParameter,
            is_loaded_weight: false,
            size: KnownSize::Other,
            stream: Stream::Main,
            allocated,
        }
    }

    fn with(sign: Sign, allocated: AllocatedIn) -> AllocationFacts {
        AllocationFacts { signs: StackSigns::with(sign), ..facts(allocated) }
    }

    fn setup(by: SetupFrames, freed: StepFree) -> AllocatedIn {
        Setup { freed, by, turn: Turn::FirstOfMany, ahead: Ahead::Backward }
    }

    fn between(freed: PassFree) -> AllocatedIn {
        Between { freed, stack: BetweenStack::Other, turn: Turn::FirstOfMany }
    }

    fn one_for_each_gradient(turn: Turn) -> AllocatedIn {
        let freed = PassFree::AfterBackward(Use::Unknown);
        Between { freed, stack: BetweenStack::OneForEachGradient, turn }
    }

    fn forward(freed: PassFree) -> AllocatedIn {
        Forward { freed, stack: ForwardStack::Other }
    }

    fn backward(freed: BackwardFree) -> AllocatedIn {
        Backward { freed, ahead: Ahead::NoBackward }
    }

    fn recompute(freed: RecomputeFree) -> AllocatedIn {
        Recompute { freed, ahead: Ahead::NoBackward }
    }

    fn optimizer(freed: StepFree) -> AllocatedIn {
        Optimizer { freed, ahead: Ahead::NoBackward, rebinds: false }
    }

    /// One example for each rule, in the order of the rules.
    fn examples() -> Vec<(&'static str, AllocationFacts)> {
        let later = PassFree::AfterBackward(Use::Unknown);
        let open = |ahead| PassFree::Open(ahead, OpenFree::AtEnd);
        let never = |ahead| PassFree::Open(ahead, OpenFree::Never);
        vec![
            ("library workspace", with(Sign::Workspace, forward(later))),
            (
                "cuBLAS workspace, by size",
                AllocationFacts { size: KnownSize::Workspace, ..facts(forward(PassFree::Never)) },
            ),
            (
                "tensors of other streams",
                AllocationFacts { stream: Stream::Side, ..facts(forward(PassFree::InBackward)) },
            ),
            ("moved buffers", facts(setup(SetupFrames::MoveBuffer, StepFree::Later))),
            ("moved parameters", facts(setup(SetupFrames::Move, StepFree::Later))),
            ("parameters of modules", facts(setup(SetupFrames::Make, StepFree::Later))),
            ("temporaries of module setup", facts(setup(SetupFrames::Make, StepFree::Within))),
            ("optimizer state", with(Sign::OptimizerState, optimizer(StepFree::Later))),
            (
                "parameters bound anew by the optimizer",
                facts(Optimizer { freed: StepFree::Later, ahead: Ahead::NoBackward, rebinds: true }),
            ),
            (
                "copies of parameters",
                AllocationFacts {
                    parameter: ParameterSize::Other,
                    ..with(Sign::Copied, between(PassFree::AfterForward))
                },
            ),
            (
                "loaded optimizer state",
                AllocationFacts {
                    parameter: ParameterSize::Module,
                    ..with(Sign::Read, between(PassFree::Never))
                },
            ),
            ("buffers of collective operations", with(Sign::Communication, backward(BackwardFree::Later))),
            ("key-value caches", with(Sign::KvCache, forward(never(Ahead::NoBackward)))),
            (
                "tensors that grow from pass to pass",
                facts(Forward { freed: PassFree::Before(Ahead::NoBackward), stack: ForwardStack::Grows }),
            ),
            ("tensors retained by the optimizer", facts(optimizer(StepFree::Never))),
            ("tensors not freed by the last optimizer step", facts(optimizer(StepFree::Open))),
            ("temporaries of the optimizer step", facts(optimizer(StepFree::AtEnd))),
            ("accumulated gradients", with(Sign::Accumulate, backward(BackwardFree::Open))),
            (
                "tensors of parameter size retained by the backward pass",
                AllocationFacts { parameter: ParameterSize::Other, ..facts(backward(BackwardFree::Later)) },
            ),
            ("tensors passed from one backward pass to another", facts(backward(BackwardFree::InBackward))),
            ("tensors retained by the backward pass", facts(backward(BackwardFree::Later))),
            ("temporaries of the backward pass", facts(backward(BackwardFree::Within))),
            ("tensors recomputed for the backward pass", facts(recompute(RecomputeFree::InBackward))),
            ("temporaries of recomputation", facts(recompute(RecomputeFree::Within))),
            ("batches", facts(between(PassFree::InBackward))),
            ("tensors saved for the backward pass", facts(forward(PassFree::InBackward))),
            ("tensors not freed by the last backward pass", facts(forward(never(Ahead::Backward)))),
            (
                "batches for another pass",
                facts(Forward { freed: later, stack: ForwardStack::OwnCodeBeforeForward }),
            ),
            (
                "results that outlive the backward pass",
                facts(forward(PassFree::AfterBackward(Use::TurnedIntoAnother))),
            ),
            ("results that the backward pass may need", facts(forward(later))),
            (
                "gradients that the program makes for its optimizer",
                facts(one_for_each_gradient(Turn::BeforeOptimizer)),
            ),
            ("state of a custom optimizer", facts(one_for_each_gradient(Turn::AfterBackward))),
            (
                "parameters outside modules",
                AllocationFacts {
                    size: KnownSize::Gradient,
                    ..facts(Between { freed: later, stack: BetweenStack::Other, turn: Turn::First })
                },
            ),
            ("parameters in another precision", facts(one_for_each_gradient(Turn::First))),
            ("parameters made before the first step", facts(setup(SetupFrames::Other, StepFree::Never))),
            ("retained batches", facts(between(later))),
            ("tensors accumulated by a forward pass", facts(forward(never(Ahead::BackwardUnrecorded)))),
            ("short-lived tensors", facts(forward(PassFree::Before(Ahead::Backward)))),
            ("tensors freed after the last pass", facts(forward(open(Ahead::NoBackward)))),
            ("unknown category", facts(forward(never(Ahead::NoBackward)))),
        ]
    }

    #[test]
    fn each_rule_decides_on_its_example() {
        let examples = examples();
        let names: Vec<&str> = examples.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, CATEGORY_RULES.iter().map(|r| r.name).collect::<Vec<_>>(), "one example a rule");
        for (name, facts) in examples {
            assert_eq!(CATEGORY_RULES[usize::from(decide(&facts))].name, name, "{facts:?}");
        }
    }

    #[test]
    fn no_rule_guesses_a_category_without_a_phase() {
        for freed in
            [UnphasedFree::Within, UnphasedFree::Open(OpenFree::AtEnd), UnphasedFree::Open(OpenFree::Never)]
        {
            let facts = facts(Unphased(freed));
            assert_eq!(CATEGORY_RULES[usize::from(decide(&facts))].category, Category::Unknown, "{freed:?}");
        }
    }
}
