//! The rules by which it is told what an allocation is for, where the recording does not say it.

use vramscope_trace::Category;

use crate::purposes::phases::Phase;
use crate::purposes::signs::{Sign, StackSigns};

/// A rule: whatever it holds for is of its category.
#[derive(Debug)]
pub struct CategoryRule {
    /// What it looks for, in a few words.
    pub name: &'static str,
    /// What such an allocation is for.
    pub category: Category,
    /// Why, as it is told to people, about "it".
    pub because: &'static str,
    /// What it stands on.
    pub evidence: Evidence,
    holds: fn(&Facts) -> bool,
}

/// Rules are the same where they have one name: each has its own.
impl PartialEq for CategoryRule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CategoryRule {}

/// What a verdict stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Evidence {
    /// Nothing: it cannot be told.
    Nothing,
    /// What others like it were for.
    Likeness,
    /// When it was given back.
    Lifetime,
    /// Frames in its stack.
    Frames,
    /// What the recording says.
    Said,
}

impl Evidence {
    /// Every kind, the strongest first.
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

/// What a rule decided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The allocation itself.
    Itself,
    /// Others of the same stack and size: the recording ends before this one is given back.
    Others,
    /// The allocation itself, in phases that only the rhythm of the recording tells: it has no stacks.
    Rhythm,
}

/// What is known of an allocation that was recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) signs: StackSigns,
    /// What the program was doing.
    pub(super) phase: Phase,
    pub(super) fate: Fate,
    /// A backward pass is in the recording, anywhere behind it.
    pub(super) backward_follows: bool,
    /// It is as large as a parameter of the model; `None` where no parameters are known.
    pub(super) is_as_large_as_a_parameter: Option<bool>,
    /// A gradient is as large as it.
    pub(super) is_as_large_as_a_gradient: bool,
    /// Made at the line of `torch.nn.Module._apply` that moves buffers.
    pub(super) is_moved_as_buffer: bool,
    /// PyTorch gives cuBLAS as much to work in.
    pub(super) is_as_large_as_a_workspace: bool,
    /// It was there when the recording ended.
    pub(super) is_for_good: bool,
    /// Something in the recording tells forward, backward or the optimizer.
    pub(super) phases_are_known: bool,
    /// The forward pass that made it keeps much of what it makes.
    pub(super) pass_keeps: bool,
    /// It has a stack, in which no frame that is known tells what ran: code of the program itself made it.
    pub(super) is_of_own_code: bool,
    /// The next thing after what it was made in is a forward pass.
    pub(super) another_forward_follows: bool,
    /// A backward pass lies before it.
    pub(super) after_backward: bool,
    /// A backward pass lies before others of its stack and size.
    pub(super) comes_again: bool,
    /// A parameter that a module made, loaded or moved is as large as it.
    pub(super) is_as_large_as_a_modules: bool,
    /// Soon after it the same forward pass made something as large, and that was kept for the backward pass: what was made of it.
    pub(super) is_turned_into_another: bool,
    /// Its stack makes about one for each gradient, as large as they are or in twice as many bytes, and all are kept.
    pub(super) is_one_for_each_gradient: bool,
    /// A step of the optimizer is next.
    pub(super) optimizer_follows: bool,
    /// Its stack makes several in each forward pass, which are kept until the next, and are larger each time.
    pub(super) grows: bool,
}

/// When an allocation was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// While what it was made in went on.
    Within,
    /// After the last allocation of what it was made in, and before the first of what came then.
    AtEnd,
    /// Later, but before a backward pass began.
    BeforeBackward,
    /// In the backward pass that followed.
    InBackward,
    /// After the backward pass that followed, or, of what was made in one or by the optimizer, after that.
    Later,
    /// It was there when the recording ended, and what it was made in had not ended.
    Open,
}

impl Facts {
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
    holds: fn(&Facts) -> bool,
) -> CategoryRule {
    CategoryRule { name, category, because, evidence, holds }
}

use Category as C;
use Evidence as E;

/// Every rule; the first that holds decides. To add one, write it where it belongs in the order, and give it an example in the tests below.
pub static CATEGORY_RULES: &[CategoryRule] = &[
    rule("workspace of a library", C::Temporary, E::Frames, "cuBLAS took it to work in", |f| {
        f.has(Sign::Workspace)
    }),
    rule(
        "workspace of cuBLAS by its size",
        C::Temporary,
        E::Likeness,
        "it has the size of cuBLAS' workspace, and was made for good, not before the first step",
        |f| {
            f.is_as_large_as_a_workspace
                && f.is_for_good
                && !f.is_as_large_as_a_gradient
                && matches!(f.phase, Phase::Between | Phase::Forward | Phase::Backward)
        },
    ),
    rule(
        "buffers that were moved",
        C::Buffer,
        E::Frames,
        "Module._apply moved it, at its line for buffers",
        |f| f.has(Sign::Moved) && f.is_in(Phase::Setup) && f.is_moved_as_buffer,
    ),
    rule(
        "parameters that were moved",
        C::Parameter,
        E::Frames,
        "Module._apply moved it to the device, or filled it",
        |f| f.has(Sign::Moved) && f.is_in(Phase::Setup),
    ),
    rule(
        "parameters that were made",
        C::Parameter,
        E::Frames,
        "a module made it or loaded it, and it stayed",
        |f| f.has(Sign::Made) && f.is_in(Phase::Setup) && !matches!(f.fate, Fate::Within),
    ),
    rule(
        "what a module needs while it is made",
        C::Temporary,
        E::Frames,
        "a module needed it while it was made",
        |f| f.has(Sign::Made) && f.is_in(Phase::Setup),
    ),
    rule(
        "state that the optimizer makes",
        C::OptimizerState,
        E::Frames,
        "the optimizer made it for a parameter",
        |f| f.has(Sign::OptimizerState) && !matches!(f.fate, Fate::Within),
    ),
    rule(
        "state that is loaded for an optimizer",
        C::OptimizerState,
        E::Likeness,
        "it was read from a file and stayed, as large as a parameter that a module has beside it",
        |f| f.has(Sign::Read) && matches!(f.fate, Fate::Later | Fate::Open) && f.is_as_large_as_a_modules,
    ),
    rule("buffers of collectives", C::Communication, E::Frames, "a collective made it", |f| {
        f.has(Sign::Communication)
    }),
    rule(
        "keys and values",
        C::KvCache,
        E::Frames,
        "a cache of keys and values made it, and no backward pass follows",
        |f| f.has(Sign::KvCache) && !f.backward_follows,
    ),
    rule(
        "what grows from pass to pass",
        C::KvCache,
        E::Likeness,
        "each forward pass makes it anew and larger, several at one place, and keeps it for the next",
        |f| f.grows && f.is_in(Phase::Forward) && f.fate != Fate::Within && !f.backward_follows,
    ),
    rule(
        "what the optimizer keeps",
        C::OptimizerState,
        E::Lifetime,
        "the optimizer made it, and kept it after its step",
        |f| f.is_in(Phase::Optimizer) && f.fate == Fate::Later,
    ),
    rule(
        "what the last step of the optimizer did not give back",
        C::OptimizerState,
        E::Likeness,
        "the optimizer made it, and it was there when the recording ended",
        |f| f.is_in(Phase::Optimizer) && f.fate == Fate::Open,
    ),
    rule(
        "what the optimizer needs in its step",
        C::Temporary,
        E::Lifetime,
        "the optimizer gave it back within its step",
        |f| f.is_in(Phase::Optimizer) && matches!(f.fate, Fate::Within | Fate::AtEnd),
    ),
    rule("gradients that are put in place", C::Gradient, E::Frames, "AccumulateGrad made it", |f| {
        f.has(Sign::Accumulate) && f.fate != Fate::Within
    }),
    rule(
        "what the backward pass leaves for parameters",
        C::Gradient,
        E::Lifetime,
        "the backward pass left it behind, as large as a parameter",
        |f| {
            let is_left = matches!(f.fate, Fate::AtEnd | Fate::Later | Fate::Open);
            f.is_in(Phase::Backward) && is_left && f.is_as_large_as_a_parameter == Some(true)
        },
    ),
    rule(
        "what one backward pass leaves for another",
        C::Activation,
        E::Lifetime,
        "a backward pass made it, and a later one gave it back",
        |f| f.is_in(Phase::Backward) && f.fate == Fate::InBackward,
    ),
    rule(
        "what the backward pass leaves",
        C::Gradient,
        E::Lifetime,
        "the backward pass left it behind",
        |f| f.is_in(Phase::Backward) && f.fate == Fate::Later,
    ),
    rule(
        "what the backward pass needs",
        C::Temporary,
        E::Lifetime,
        "the backward pass gave it back before it ended",
        |f| f.is_in(Phase::Backward) && matches!(f.fate, Fate::Within | Fate::AtEnd),
    ),
    rule(
        // It is there for a moment within the backward pass, which is what checkpoints are for; the Python package says the same.
        "what a checkpoint makes again for the backward pass",
        C::Temporary,
        E::Lifetime,
        "a checkpoint made it again, and the backward pass took it from there",
        |f| f.is_in(Phase::Recompute) && matches!(f.fate, Fate::InBackward | Fate::Later),
    ),
    rule(
        "what a checkpoint needs to make others again",
        C::Temporary,
        E::Lifetime,
        "it was given back before the backward pass could use it",
        |f| f.is_in(Phase::Recompute) && f.fate == Fate::Within,
    ),
    rule(
        "batches",
        C::Input,
        E::Lifetime,
        "the program made it before the forward pass, which took it",
        |f| {
            f.is_in(Phase::Between)
                && (f.fate == Fate::InBackward || f.fate == Fate::Open && f.backward_follows)
        },
    ),
    rule(
        "what is kept for the backward pass",
        C::Activation,
        E::Lifetime,
        "the forward pass made it, and the backward pass gave it back",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::InBackward,
    ),
    rule(
        "what the last backward pass did not give back",
        C::Activation,
        E::Likeness,
        "the forward pass made it, and it was there when the recording ended in the backward pass",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Open && f.backward_follows,
    ),
    rule(
        "batches for another pass",
        C::Input,
        E::Lifetime,
        "the program made it between two forward passes, and it was there in the second",
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
        "the forward pass made it, and the program kept it beyond the backward pass, which needed what was made of it, or for good",
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
        "the forward pass made it, and the program kept it beyond the backward pass, with nothing else that was made of it",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Later && f.backward_follows,
    ),
    rule(
        "gradients that the program makes for its optimizer",
        C::Gradient,
        E::Likeness,
        "the program made it between the backward pass and the optimizer, one for each gradient, and kept it",
        |f| f.is_kept_for_each_gradient() && f.after_backward && f.optimizer_follows,
    ),
    rule(
        "state of an optimizer of the program's own",
        C::OptimizerState,
        E::Likeness,
        "the program made it after a backward pass, one for each gradient, and kept it",
        |f| f.is_kept_for_each_gradient() && f.after_backward,
    ),
    rule(
        "parameters outside of modules",
        C::Parameter,
        E::Likeness,
        "it was kept from before the forward pass, and a gradient is as large as it",
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
        "the program made it before the first step, one for each gradient, and kept it",
        |f| f.is_kept_for_each_gradient(),
    ),
    rule(
        "parameters made before the first step",
        C::Parameter,
        E::Likeness,
        "it was made before the first step, and stayed",
        |f| f.is_in(Phase::Setup) && f.is_for_good,
    ),
    rule(
        "batches that stay",
        C::Input,
        E::Lifetime,
        "the program made it before the forward pass, and it stayed",
        |f| f.is_in(Phase::Between) && f.fate == Fate::Later && f.backward_follows,
    ),
    rule(
        "copies of parameters",
        C::Parameter,
        E::Likeness,
        "it was copied to be kept, as large as a parameter",
        |f| f.has(Sign::Copied) && f.fate != Fate::Within && f.is_as_large_as_a_parameter == Some(true),
    ),
    rule(
        "what a forward pass piles up",
        C::Activation,
        E::Likeness,
        "its forward pass kept much of what it made, as before a backward pass",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Open && f.pass_keeps,
    ),
    rule(
        "what is soon given back",
        C::Temporary,
        E::Lifetime,
        "it was given back before a backward pass could use it",
        |f| f.phases_are_known && matches!(f.fate, Fate::Within | Fate::AtEnd | Fate::BeforeBackward),
    ),
    rule(
        "what is given back behind the last pass",
        C::Temporary,
        E::Likeness,
        "a forward pass made it that kept little, and it was given back after it",
        |f| f.is_in(Phase::Forward) && f.fate == Fate::Open && !f.is_for_good && !f.backward_follows,
    ),
    rule("what cannot be told", C::Unknown, E::Nothing, "nothing tells", |_| true),
];

/// The number of the first rule that holds.
pub(super) fn decide(facts: &Facts) -> u8 {
    let found = CATEGORY_RULES.iter().position(|r| (r.holds)(facts)).unwrap_or(CATEGORY_RULES.len() - 1);
    u8::try_from(found).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known of an allocation that nothing speaks of.
    fn facts(phase: Phase, fate: Fate) -> Facts {
        Facts {
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

    fn with(sign: Sign, facts: Facts) -> Facts {
        Facts { signs: StackSigns::with(sign), ..facts }
    }

    /// An example of each rule, in their order.
    fn examples() -> Vec<(&'static str, Facts)> {
        let (forward, backward) = (Phase::Forward, Phase::Backward);
        let parameter = |facts| Facts { is_as_large_as_a_parameter: Some(true), ..facts };
        let moved = with(Sign::Moved, facts(Phase::Setup, Fate::Later));
        let for_each = Facts {
            is_one_for_each_gradient: true,
            after_backward: true,
            ..facts(Phase::Between, Fate::Later)
        };
        let made = |fate| with(Sign::Made, facts(Phase::Setup, fate));
        vec![
            ("workspace of a library", with(Sign::Workspace, facts(forward, Fate::Later))),
            (
                "workspace of cuBLAS by its size",
                Facts { is_as_large_as_a_workspace: true, is_for_good: true, ..facts(forward, Fate::Later) },
            ),
            ("buffers that were moved", Facts { is_moved_as_buffer: true, ..moved }),
            ("parameters that were moved", moved),
            ("parameters that were made", made(Fate::Later)),
            ("what a module needs while it is made", made(Fate::Within)),
            (
                "state that the optimizer makes",
                with(Sign::OptimizerState, facts(Phase::Optimizer, Fate::Later)),
            ),
            (
                "state that is loaded for an optimizer",
                Facts {
                    is_as_large_as_a_modules: true,
                    ..with(Sign::Read, facts(Phase::Between, Fate::Later))
                },
            ),
            ("buffers of collectives", with(Sign::Communication, facts(backward, Fate::Later))),
            (
                "keys and values",
                Facts { backward_follows: false, ..with(Sign::KvCache, facts(forward, Fate::Open)) },
            ),
            (
                "what grows from pass to pass",
                Facts { grows: true, backward_follows: false, ..facts(forward, Fate::BeforeBackward) },
            ),
            ("what the optimizer keeps", facts(Phase::Optimizer, Fate::Later)),
            ("what the last step of the optimizer did not give back", facts(Phase::Optimizer, Fate::Open)),
            ("what the optimizer needs in its step", facts(Phase::Optimizer, Fate::AtEnd)),
            ("gradients that are put in place", with(Sign::Accumulate, facts(backward, Fate::Open))),
            ("what the backward pass leaves for parameters", parameter(facts(backward, Fate::Later))),
            ("what one backward pass leaves for another", facts(backward, Fate::InBackward)),
            ("what the backward pass leaves", facts(backward, Fate::Later)),
            ("what the backward pass needs", facts(backward, Fate::Within)),
            (
                "what a checkpoint makes again for the backward pass",
                facts(Phase::Recompute, Fate::InBackward),
            ),
            ("what a checkpoint needs to make others again", facts(Phase::Recompute, Fate::Within)),
            ("batches", facts(Phase::Between, Fate::InBackward)),
            ("what is kept for the backward pass", facts(forward, Fate::InBackward)),
            ("what the last backward pass did not give back", facts(forward, Fate::Open)),
            (
                "batches for another pass",
                Facts { is_of_own_code: true, another_forward_follows: true, ..facts(forward, Fate::Later) },
            ),
            (
                "results that outlive the backward pass",
                Facts { is_turned_into_another: true, ..facts(forward, Fate::Later) },
            ),
            ("results that the backward pass may need", facts(forward, Fate::Later)),
            (
                "gradients that the program makes for its optimizer",
                Facts { optimizer_follows: true, ..for_each },
            ),
            ("state of an optimizer of the program's own", for_each),
            (
                "parameters outside of modules",
                Facts { is_as_large_as_a_gradient: true, ..facts(Phase::Between, Fate::Later) },
            ),
            ("parameters in another precision", Facts { after_backward: false, ..for_each }),
            (
                "parameters made before the first step",
                Facts { is_for_good: true, ..facts(Phase::Setup, Fate::Later) },
            ),
            ("batches that stay", facts(Phase::Between, Fate::Later)),
            (
                "copies of parameters",
                Facts {
                    backward_follows: false,
                    ..with(Sign::Copied, parameter(facts(Phase::Between, Fate::Later)))
                },
            ),
            (
                "what a forward pass piles up",
                Facts { pass_keeps: true, backward_follows: false, ..facts(forward, Fate::Open) },
            ),
            ("what is soon given back", facts(forward, Fate::BeforeBackward)),
            (
                "what is given back behind the last pass",
                Facts { backward_follows: false, ..facts(forward, Fate::Open) },
            ),
            (
                "what cannot be told",
                Facts { is_for_good: true, backward_follows: false, ..facts(forward, Fate::Open) },
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
            let facts =
                Facts { phases_are_known: false, backward_follows: false, ..facts(Phase::Between, fate) };
            assert_eq!(CATEGORY_RULES[usize::from(decide(&facts))].category, Category::Unknown, "{fate:?}");
        }
    }
}
