//! The facts about an allocation that rules decide by. Facts that exclude each other are variants of one enum.

use crate::categories::signs::{Sign, StackSigns};

/// The facts about a recorded allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllocationFacts {
    /// The known frames of its stack.
    pub(super) signs: StackSigns,
    /// Its size, compared with the parameters of the model.
    pub(super) parameter: ParameterSize,
    /// Read from a file, as one of as many tensors of its size as modules have parameters of that size.
    pub(super) is_loaded_weight: bool,
    /// Its size, compared with other known sizes.
    pub(super) size: KnownSize,
    /// Its stream, in a recording without stacks.
    pub(super) stream: Stream,
    /// The phase in which it was allocated, and the facts of that phase.
    pub(super) allocated: AllocatedIn,
}

/// Whether parameters have the size of the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterSize {
    /// A parameter that a module made, loaded or moved.
    Module,
    /// A parameter, but none that a module made, loaded or moved.
    Other,
    /// No known parameter.
    NoParameter,
}

/// What else has the size of the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownSize {
    /// A gradient.
    Gradient,
    /// A workspace of cuBLAS or cuBLASLt, and no gradient.
    Workspace,
    /// No known size.
    Other,
}

/// The stream of an allocation, if nothing else shows what made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// The stream with most of the allocated bytes, or any stream if the recording has stacks.
    Main,
    /// Another stream of a recording without stacks: of a collective operation, of a copy, or of other work beside the passes.
    Side,
}

/// The phase in which an allocation was made, when it was freed, and the facts that only this phase has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllocatedIn {
    /// The recording does not show phases.
    Unphased(UnphasedFree),
    /// The program builds, moves or fills its model.
    Setup { freed: StepFree, by: SetupFrames, turn: Turn, ahead: Ahead },
    /// The program's own code runs outside of modules.
    Between { freed: PassFree, stack: BetweenStack, turn: Turn },
    /// The forward pass.
    Forward { freed: PassFree, stack: ForwardStack },
    /// The backward pass.
    Backward { freed: BackwardFree, ahead: Ahead },
    /// A forward pass that is repeated inside the backward pass.
    Recompute { freed: RecomputeFree, ahead: Ahead },
    /// The optimizer step. `rebinds`: a parameter of the same size was freed right after the allocation.
    Optimizer { freed: StepFree, ahead: Ahead, rebinds: bool },
}

/// Whether a backward pass follows the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// The recording contains a later backward pass.
    Backward,
    /// The recording contains none, but the phase is a forward pass that retains much of its memory, as before a backward pass.
    BackwardUnrecorded,
    /// No backward pass follows.
    NoBackward,
}

/// The place of an allocation relative to the first backward pass and to the optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Before all backward passes. No other allocation with its stack and size comes after a backward pass.
    First,
    /// Before all backward passes. Others with its stack and size come after a backward pass.
    FirstOfMany,
    /// After a backward pass.
    AfterBackward,
    /// After a backward pass, in the interval before an optimizer step.
    BeforeOptimizer,
}

/// The frames of an allocation during setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetupFrames {
    /// `torch.nn.Module._apply`, at the line that moves buffers.
    MoveBuffer,
    /// `torch.nn.Module._apply`, at another line.
    Move,
    /// A module or a parameter is made or filled.
    Make,
    /// The frames show none of these.
    Other,
}

/// The stack of an allocation by the program's own code, compared with other allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BetweenStack {
    /// The stack makes about one retained allocation for each gradient, with the gradient's size or twice as many bytes.
    OneForEachGradient,
    /// Another stack.
    Other,
}

/// The stack of an allocation in a forward pass, compared with other allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForwardStack {
    /// No backward pass follows, and the stack makes several allocations in each forward pass, which are retained until the next
    /// pass and grow each time.
    Grows,
    /// The stack has no frame that shows a phase, and the next interval is another forward pass: the program's own code runs
    /// between two forward passes.
    OwnCodeBeforeForward,
    /// The recording has no stacks.
    Unrecorded,
    /// Another stack.
    Other,
}

/// When an allocation was freed that was made during setup or by the optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepFree {
    /// During its phase.
    Within,
    /// After the last allocation of its phase, and before the first allocation after it.
    AtEnd,
    /// Later.
    Later,
    /// Never, and its phase had ended.
    Never,
    /// Never, and its phase had not ended.
    Open,
}

/// When an allocation was freed that was made in a forward pass or by the program's own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassFree {
    /// During its phase.
    Within(Ahead),
    /// Later, but before the next backward pass began. If none follows: before the forward pass after the next one began.
    Before(Ahead),
    /// In a later backward pass, or right after its last allocation.
    InBackward,
    /// At another time after the next backward pass began.
    AfterBackward(Use),
    /// No backward pass follows. After the forward pass after the next one began, and before the last allocation of the recording.
    AfterForward,
    /// Never, and the next backward pass had ended.
    Never,
    /// After the last allocation of the recording or never, and no backward pass has ended since.
    Open(Ahead, OpenFree),
}

/// The use of an allocation that outlived the next backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The same forward pass soon made another tensor of about its size that was retained for the backward pass, and so probably
    /// computed from it.
    TurnedIntoAnother,
    /// None is known.
    Unknown,
}

/// When an allocation was freed whose pass was open when the recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenFree {
    /// After the last allocation of the recording.
    AtEnd,
    /// Never.
    Never,
}

/// When an allocation was freed that was made in a backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackwardFree {
    /// During its pass.
    Within,
    /// After the last allocation of its pass, and before the first allocation after it.
    AtEnd,
    /// In a later backward pass.
    InBackward,
    /// At another time after its pass.
    Later,
    /// Never, and its pass had ended.
    Never,
    /// Never, and its pass had not ended.
    Open,
}

/// When an allocation was freed that was recomputed in a backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecomputeFree {
    /// During the recomputation.
    Within,
    /// In the same backward pass.
    InBackward,
    /// After that pass, or never.
    Later,
    /// Never, and the recomputation had not ended.
    Open,
}

/// When an allocation was freed in a recording without phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnphasedFree {
    /// Before the last allocation of the recording.
    Within,
    /// After the last allocation of the recording or never.
    Open(OpenFree),
}

/// How long an allocation was retained, as far as all phases have it in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retained {
    /// Until its phase ended, at most.
    Within,
    /// For a time after its phase that ended in the recording, at the latest in a backward pass.
    Briefly,
    /// Longer, or until the recording ended.
    Long,
}

impl AllocationFacts {
    pub(super) fn has(&self, sign: Sign) -> bool {
        self.signs.has(sign)
    }

    /// Whether a parameter has its size.
    pub(super) fn is_as_large_as_a_parameter(&self) -> bool {
        self.parameter != ParameterSize::NoParameter
    }

    pub(super) fn retained(&self) -> Retained {
        self.allocated.retained()
    }
}

impl AllocatedIn {
    fn retained(self) -> Retained {
        match self {
            Self::Unphased(UnphasedFree::Within)
            | Self::Setup { freed: StepFree::Within, .. }
            | Self::Optimizer { freed: StepFree::Within, .. }
            | Self::Between { freed: PassFree::Within(_), .. }
            | Self::Forward { freed: PassFree::Within(_), .. }
            | Self::Backward { freed: BackwardFree::Within, .. }
            | Self::Recompute { freed: RecomputeFree::Within, .. } => Retained::Within,
            Self::Setup { freed: StepFree::AtEnd, .. }
            | Self::Optimizer { freed: StepFree::AtEnd, .. }
            | Self::Between { freed: PassFree::Before(_) | PassFree::InBackward, .. }
            | Self::Forward { freed: PassFree::Before(_) | PassFree::InBackward, .. }
            | Self::Backward { freed: BackwardFree::AtEnd | BackwardFree::InBackward, .. }
            | Self::Recompute { freed: RecomputeFree::InBackward, .. } => Retained::Briefly,
            _ => Retained::Long,
        }
    }

    /// Whether the recording contains a later backward pass.
    pub(super) fn is_before_backward(self) -> bool {
        let ahead = match self {
            Self::Unphased(_) => Ahead::NoBackward,
            Self::Between { freed, .. } | Self::Forward { freed, .. } => freed.ahead(),
            Self::Setup { ahead, .. }
            | Self::Backward { ahead, .. }
            | Self::Recompute { ahead, .. }
            | Self::Optimizer { ahead, .. } => ahead,
        };
        ahead == Ahead::Backward
    }
}

impl PassFree {
    fn ahead(self) -> Ahead {
        match self {
            Self::Within(ahead) | Self::Before(ahead) | Self::Open(ahead, _) => ahead,
            Self::InBackward | Self::AfterBackward(_) | Self::Never => Ahead::Backward,
            Self::AfterForward => Ahead::NoBackward,
        }
    }
}
