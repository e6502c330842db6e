//! The rules that infer the category of an allocation if the recording does not contain it.

use vramscope_trace::Category;

use super::phases::Phase;
use crate::categories::signs::{Sign, StackSigns};

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

/// The properties of a recorded allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllocationFacts {
    pub(super) signs: StackSigns,
    /// The phase in which it was made.
    pub(super) phase: Phase,
    pub(super) fate: Fate,
    /// Whether the recording contains a later backward pass.
    pub(super) backward_follows: bool,
    /// Whether it has the size of a parameter of the model; `None` if no parameters are known.
    pub(super) is_as_large_as_a_parameter: Option<bool>,
    /// Whether it has the size of a gradient.
    pub(super) is_as_large_as_a_gradient: bool,
    /// Whether it was made at the line of `torch.nn.Module._apply` that moves buffers.
    pub(super) is_moved_as_buffer: bool,
    /// Whether it has the size of PyTorch's cuBLAS workspace.
    pub(super) is_as_large_as_a_workspace: bool,
    /// Whether it was never freed in the recording.
    pub(super) is_for_good: bool,
    /// Whether the recording shows forward passes, backward passes or optimizer steps.
    pub(super) phases_are_known: bool,
    /// Whether its forward pass retains much of its memory.
    pub(super) pass_keeps: bool,
    /// Whether it has a stack without known frames: the program's own code made it.
    pub(super) is_of_own_code: bool,
    /// Whether the next interval is a forward pass.
    pub(super) another_forward_follows: bool,
    /// Whether a backward pass comes before it.
    pub(super) after_backward: bool,
    /// Whether a backward pass comes before other allocations with its stack and size.
    pub(super) comes_again: bool,
    /// Whether it has the size of a parameter that a module made, loaded or moved.
    pub(super) is_as_large_as_a_modules: bool,
    /// Whether the same forward pass soon made another tensor of about its size that was retained for the backward pass, and so
    /// probably computed from it.
    pub(super) is_turned_into_another: bool,
    /// Whether its stack makes about one retained allocation for each gradient, with the gradient's size or twice as many bytes.
    pub(super) is_one_for_each_gradient: bool,
    /// Whether an optimizer step follows.
    pub(super) optimizer_follows: bool,
    /// Whether its stack makes several allocations in each forward pass, which are retained until the next pass and grow each
    /// time.
    pub(super) grows: bool,
}

/// When an allocation was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// During the pass in which it was made.
    Within,
    /// After the last allocation of the pass in which it was made, and before the first allocation after it.
    AtEnd,
    /// Later, but before the next backward pass began.
    BeforeBackward,
    /// In the following backward pass.
    InBackward,
    /// After the following backward pass. For an allocation made in a backward pass or by the optimizer: after that pass.
    Later,
    /// It was not freed in the recording, and the pass in which it was made had not ended.
    Open,
}

impl AllocationFacts {
    fn has(&self, sign: Sign) -> bool {
        self.signs.has(sign)
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase == phase
    }

    fn is_kept_for_each_gradient(&self) -> bool {
        self.is_in(Phase::Between)
            && matches!(self.fate, Fate::Later | Fate::Open)
            && self.is_one_for_each_gradient
    }
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

use Category as C;
use Evidence as E;

/// All rules, in order; the first that applies decides. To add a rule, insert it at its place in the order and add an example to
/// the tests below.
pub static CATEGORY_RULES: &[CategoryRule] = &[
    rule("library workspace", C::Temporary, E::Frames, "cuBLAS allocated it as its workspace", |f| {
        f.has(Sign::Workspace)
    }),
    rule(
        "cuBLAS workspace, by size",
        C::Temporary,
        E::Likeness,
        "it has the size of a cuBLAS workspace, was allocated after the setup and was never freed",
        |f| {
            f.is_as_large_as_a_workspace
                && f.is_for_good
                && !f.is_as_large_as_a_gradient
                && matches!(f.phase, Phase::Between | Phase::Forward | Phase::Backward)
        },
    ),
    rule(
        "moved buffers",
        C::Buffer,
        E::Frames,
        "Module._apply moved it, at the line that moves buffers",
        |f| f.has(Sign::Moved) && f.is_in(Phase::Setup) && f.is_moved_as_buffer,
    ),
    rule(
        "moved parameters",
        C::Parameter,
        E::Frames,
        "Module._apply moved it to the device, or filled it",
        |f| f.has(Sign::Moved) && f.is_in(Phase::Setup),
    ),
    rule(
        "parameters of modules",
        C::Parameter,
        E::Frames,
        "a module allocated or loaded it and retained it",
        |f| f.has(Sign::Made) && f.is_in(Phase::Setup) && !matches!(f.fate, Fate::Within),
    ),
    rule(
        "temporaries of module setup",
        C::Temporary,
        E::Frames,
        "a module allocated it during its setup and freed it",
        |f| f.has(Sign::Made) && f.is_in(Phase::Setup),
    ),
    rule(
        "optimizer state",
        C::OptimizerState,
        E::Frames,
        "the optimizer allocated it as the state of a parameter",
        |f| f.has(Sign::OptimizerState) && !matches!(f.fate, Fate::Within),
    ),
    rule(
        "loaded optimizer state",
        C::OptimizerState,
        E::Likeness,
        "it was read from a file and retained, and a parameter of a module has the same size",
        |f| f.has(Sign::Read) && matches!(f.fate, Fate::Later | Fate::Open) && f.is_as_large_as_a_modules,
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
        |f| f.has(Sign::KvCache) && !f.backward_follows,
    ),
    rule(
        "tensors that grow from pass to pass",
        C::KvCache,
        E::Likeness,
        "each forward pass allocates several such tensors at one place, larger each time, and retains them for the next pass",
        |f| f.grows && f.is_in(Phase::Forward) && f.fate != Fate::Within && !f.backward_follows,
    ),
    rule(
        "tensors retained by the optimizer",
        C::OptimizerState,
        E::Lifetime,
        "the optimizer allocated it, and retained it after its step",
        |f| f.is_in(Phase::Optimizer) && f.fate == Fate::Later,
    ),
    rule(
        "tensors not freed by the last optimizer step",
        C::OptimizerState,
        E::Likeness,
        "the optimizer allocated it, and it was still allocated when the recording ended",
        |f| f.is_in(Phase::Optimizer) && f.fate == Fate::Open,
    ),
    rule(
        "temporaries of the optimizer step",
        C::Temporary,
        E::Lifetime,
        "the optimizer freed it within its step",
        |f| f.is_in(Phase::Optimizer) && matches!(f.fate, Fate::Within | Fate::AtEnd),
    ),
    rule("accumulated gradients", C::Gradient, E::Frames, "AccumulateGrad allocated it", |f| {
        f.has(Sign::Accumulate) && f.fate != Fate::Within
    }),
    rule(
        "tensors of parameter size retained by the backward pass",
        C::Gradient,
        E::Lifetime,
        "the backward pass allocated and retained it, and a parameter has the same size",
        |f| {
            let is_left = matches!(f.fate, Fate::AtEnd | Fate::Later | Fate::Open);
            f.is_in(Phase::Backward) && is_left && f.is_as_large_as_a_parameter == Some(true)
        },
    ),
    rule(
        "tensors passed from one backward pass to another",
        C::Activation,
        E::Lifetime,
        "a backward pass allocated it, and a later one freed it",
        |f| f.is_in(Phase::Backward) && f.fate == Fate::InBackward,
    ),
    rule(
        "tensors retained by the backward pass",
        C::Gradient,
        E::Lifetime,
        "the backward pass allocated and retained it",
        |f| f.is_in(Phase::Backward) && f.fate == Fate::Later,
    ),
    rule(
        "temporaries of the backward pass",
        C::Temporary,
        E::Lifetime,
        "the backward pass freed it before it ended",
        |f| f.is_in(Phase::Backward) && matches!(f.fate, Fate::Within | Fate::AtEnd),
    ),
    rule(
        // It exists only for a moment within the backward pass, which is the purpose of checkpoints; the Python package uses the
        // same category.
        "tensors recomputed for the backward pass",
        C::Temporary,
        E::Lifetime,
        "a checkpoint recomputed it, and the backward pass used it",
        |f| f.is_in(Phase::Recompute) && matches!(f.fate, Fate::InBackward | Fate::Later),
    ),
    rule(
        "temporaries of recomputation",
        C::Temporary,
        E::Lifetime,
        "it was freed before the backward pass could use it",
        |f| f.is_in(Phase::Recompute) && f.fate == Fate::Within,
    ),
    rule(
        "batches",
        C::Input,
        E::Lifetime,
        "the program allocated it before the forward pass, which used it",
        |f| {
            f.is_in(Phase::Between)
                && (f.fate == Fate::InBackward || f.fate == Fate::Open && f.backward_follows)
        },
    ),
    rule(
        "tensors saved for the backward pass",
        C::Activation,
        E::Lifetime,
        "the forward pass allocated it, and the backward pass freed it",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::InBackward,
    ),
    rule(
        "tensors not freed by the last backward pass",
        C::Activation,
        E::Likeness,
        "the forward pass allocated it, and it was still allocated when the recording ended in the backward pass",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Open && f.backward_follows,
    ),
    rule(
        "batches for another pass",
        C::Input,
        E::Lifetime,
        "the program allocated it between two forward passes, and it was still allocated in the second",
        |f| {
            f.is_in(Phase::Forward)
                && f.is_of_own_code
                && f.another_forward_follows
                && !matches!(f.fate, Fate::Within | Fate::Open)
        },
    ),
    rule(
        "results that outlive the backward pass",
        C::Temporary,
        E::Lifetime,
        "the forward pass allocated it, and the program retained it to the end, or beyond a backward pass that used a tensor computed from it",
        |f| {
            f.is_in(Phase::Forward)
                && f.fate == Fate::Later
                && f.backward_follows
                && (f.is_turned_into_another || f.is_for_good)
        },
    ),
    rule(
        "results that the backward pass may need",
        C::Activation,
        E::Likeness,
        "the forward pass allocated it, the program retained it beyond the backward pass, and no other retained tensor was computed from it",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Later && f.backward_follows,
    ),
    rule(
        "gradients that the program makes for its optimizer",
        C::Gradient,
        E::Likeness,
        "the program allocated it between the backward pass and the optimizer, one for each gradient, and retained it",
        |f| f.is_kept_for_each_gradient() && f.after_backward && f.optimizer_follows,
    ),
    rule(
        "state of a custom optimizer",
        C::OptimizerState,
        E::Likeness,
        "the program allocated it after a backward pass, one for each gradient, and retained it",
        |f| f.is_kept_for_each_gradient() && f.after_backward,
    ),
    rule(
        "parameters outside modules",
        C::Parameter,
        E::Likeness,
        "it was allocated before the forward pass and retained, and a gradient has the same size",
        |f| {
            matches!(f.phase, Phase::Between | Phase::Setup)
                && f.fate == Fate::Later
                && f.is_as_large_as_a_gradient
                && !f.after_backward
                && !f.comes_again
        },
    ),
    rule(
        "parameters in another precision",
        C::Parameter,
        E::Likeness,
        "the program allocated it before the first step, one for each gradient, and retained it",
        |f| f.is_kept_for_each_gradient(),
    ),
    rule(
        "parameters made before the first step",
        C::Parameter,
        E::Likeness,
        "it was allocated before the first step and never freed",
        |f| f.is_in(Phase::Setup) && f.is_for_good,
    ),
    rule(
        "retained batches",
        C::Input,
        E::Lifetime,
        "the program allocated it before the forward pass and retained it",
        |f| f.is_in(Phase::Between) && f.fate == Fate::Later && f.backward_follows,
    ),
    rule(
        "copies of parameters",
        C::Parameter,
        E::Likeness,
        "it is a retained copy, and a parameter has the same size",
        |f| f.has(Sign::Copied) && f.fate != Fate::Within && f.is_as_large_as_a_parameter == Some(true),
    ),
    rule(
        "tensors accumulated by a forward pass",
        C::Activation,
        E::Likeness,
        "its forward pass retained much of its memory, as before a backward pass",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Open && f.pass_keeps,
    ),
    rule(
        "short-lived tensors",
        C::Temporary,
        E::Lifetime,
        "it was freed before a backward pass could use it",
        |f| f.phases_are_known && matches!(f.fate, Fate::Within | Fate::AtEnd | Fate::BeforeBackward),
    ),
    rule(
        "tensors freed after the last pass",
        C::Temporary,
        E::Likeness,
        "it was allocated by a forward pass that retained little, and freed after that pass",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Open && !f.is_for_good && !f.backward_follows,
    ),
    rule("unknown category", C::Unknown, E::Nothing, "the recording does not show its category", |_| true),
];

/// Returns the index of the first rule that applies.
pub(super) fn decide(facts: &AllocationFacts) -> u8 {
    let found = CATEGORY_RULES.iter().position(|r| (r.holds)(facts)).unwrap_or(CATEGORY_RULES.len() - 1);
    u8::try_from(found).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The properties of an allocation that no specific rule applies to.
    fn facts(phase: Phase, fate: Fate) -> AllocationFacts {
        AllocationFacts {
            signs: StackSigns::default(),
            phase,
            fate,
            backward_follows: true,
            is_as_large_as_a_parameter: Some(false),
            is_as_large_as_a_gradient: false,
            is_moved_as_buffer: false,
            is_as_large_as_a_workspace: false,
            is_for_good: false,
            phases_are_known: true,
            pass_keeps: false,
            is_of_own_code: false,
            another_forward_follows: false,
            after_backward: false,
            comes_again: false,
            is_as_large_as_a_modules: false,
            is_turned_into_another: false,
            is_one_for_each_gradient: false,
            optimizer_follows: false,
            grows: false,
        }
    }

    fn with(sign: Sign, facts: AllocationFacts) -> AllocationFacts {
        AllocationFacts { signs: StackSigns::with(sign), ..facts }
    }

    /// One example for each rule, in the order of the rules.
    fn examples() -> Vec<(&'static str, AllocationFacts)> {
        let (forward, backward) = (Phase::Forward, Phase::Backward);
        let parameter = |facts| AllocationFacts { is_as_large_as_a_parameter: Some(true), ..facts };
        let moved = with(Sign::Moved, facts(Phase::Setup, Fate::Later));
        let for_each = AllocationFacts {
            is_one_for_each_gradient: true,
            after_backward: true,
            ..facts(Phase::Between, Fate::Later)
        };
        let made = |fate| with(Sign::Made, facts(Phase::Setup, fate));
        vec![
            ("library workspace", with(Sign::Workspace, facts(forward, Fate::Later))),
            (
                "cuBLAS workspace, by size",
                AllocationFacts {
                    is_as_large_as_a_workspace: true,
                    is_for_good: true,
                    ..facts(forward, Fate::Later)
                },
            ),
            ("moved buffers", AllocationFacts { is_moved_as_buffer: true, ..moved }),
            ("moved parameters", moved),
            ("parameters of modules", made(Fate::Later)),
            ("temporaries of module setup", made(Fate::Within)),
            ("optimizer state", with(Sign::OptimizerState, facts(Phase::Optimizer, Fate::Later))),
            (
                "loaded optimizer state",
                AllocationFacts {
                    is_as_large_as_a_modules: true,
                    ..with(Sign::Read, facts(Phase::Between, Fate::Later))
                },
            ),
            ("buffers of collective operations", with(Sign::Communication, facts(backward, Fate::Later))),
            (
                "key-value caches",
                AllocationFacts {
                    backward_follows: false,
                    ..with(Sign::KvCache, facts(forward, Fate::Open))
                },
            ),
            (
                "tensors that grow from pass to pass",
                AllocationFacts {
                    grows: true,
                    backward_follows: false,
                    ..facts(forward, Fate::BeforeBackward)
                },
            ),
            ("tensors retained by the optimizer", facts(Phase::Optimizer, Fate::Later)),
            ("tensors not freed by the last optimizer step", facts(Phase::Optimizer, Fate::Open)),
            ("temporaries of the optimizer step", facts(Phase::Optimizer, Fate::AtEnd)),
            ("accumulated gradients", with(Sign::Accumulate, facts(backward, Fate::Open))),
            (
                "tensors of parameter size retained by the backward pass",
                parameter(facts(backward, Fate::Later)),
            ),
            ("tensors passed from one backward pass to another", facts(backward, Fate::InBackward)),
            ("tensors retained by the backward pass", facts(backward, Fate::Later)),
            ("temporaries of the backward pass", facts(backward, Fate::Within)),
            ("tensors recomputed for the backward pass", facts(Phase::Recompute, Fate::InBackward)),
            ("temporaries of recomputation", facts(Phase::Recompute, Fate::Within)),
            ("batches", facts(Phase::Between, Fate::InBackward)),
            ("tensors saved for the backward pass", facts(forward, Fate::InBackward)),
            ("tensors not freed by the last backward pass", facts(forward, Fate::Open)),
            (
                "batches for another pass",
                AllocationFacts {
                    is_of_own_code: true,
                    another_forward_follows: true,
                    ..facts(forward, Fate::Later)
                },
            ),
            (
                "results that outlive the backward pass",
                AllocationFacts { is_turned_into_another: true, ..facts(forward, Fate::Later) },
            ),
            ("results that the backward pass may need", facts(forward, Fate::Later)),
            (
                "gradients that the program makes for its optimizer",
                AllocationFacts { optimizer_follows: true, ..for_each },
            ),
            ("state of a custom optimizer", for_each),
            (
                "parameters outside modules",
                AllocationFacts { is_as_large_as_a_gradient: true, ..facts(Phase::Between, Fate::Later) },
            ),
            ("parameters in another precision", AllocationFacts { after_backward: false, ..for_each }),
            (
                "parameters made before the first step",
                AllocationFacts { is_for_good: true, ..facts(Phase::Setup, Fate::Later) },
            ),
            ("retained batches", facts(Phase::Between, Fate::Later)),
            (
                "copies of parameters",
                AllocationFacts {
                    backward_follows: false,
                    ..with(Sign::Copied, parameter(facts(Phase::Between, Fate::Later)))
                },
            ),
            (
                "tensors accumulated by a forward pass",
                AllocationFacts { pass_keeps: true, backward_follows: false, ..facts(forward, Fate::Open) },
            ),
            ("short-lived tensors", facts(forward, Fate::BeforeBackward)),
            (
                "tensors freed after the last pass",
                AllocationFacts { backward_follows: false, ..facts(forward, Fate::Open) },
            ),
            (
                "unknown category",
                AllocationFacts { is_for_good: true, backward_follows: false, ..facts(forward, Fate::Open) },
            ),
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
    fn where_no_phase_is_known_nothing_is_guessed() {
        for fate in [Fate::Within, Fate::AtEnd, Fate::BeforeBackward, Fate::Open] {
            let facts = AllocationFacts {
                phases_are_known: false,
                backward_follows: false,
                ..facts(Phase::Between, fate)
            };
            assert_eq!(CATEGORY_RULES[usize::from(decide(&facts))].category, Category::Unknown, "{fate:?}");
        }
    }
}
