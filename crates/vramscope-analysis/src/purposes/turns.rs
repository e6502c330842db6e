//! How often a program went round.

use std::ops::Range;

/// What stacks tell of how often a program went round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// The most rounds there can have been: as many as forward passes; where no module ran, as many as backward passes or steps of an
    /// optimizer, whichever are more. `None` where stacks tell none of these.
    pub(crate) most_rounds: Option<u32>,
    /// The first event of all but the model's making, and the first event after each step of an optimizer.
    pub(crate) steps: Vec<usize>,
    /// All steps of an optimizer but the first begin at one stack: there is one optimizer.
    pub(crate) one_optimizer: bool,
    /// The events of each setup of a model, backward pass and optimizer step, in order of their first event. Forward passes are not
    /// among them, for several in a row can look like one.
    pub(crate) passes: Vec<Range<u32>>,
}

impl Turns {
    /// The number of the pass in [`passes`](Self::passes) that has this event.
    pub(crate) fn pass_at(&self, event: u32) -> Option<usize> {
        let number = self.passes.partition_point(|pass| pass.start <= event).checked_sub(1)?;
        self.passes[number].contains(&event).then_some(number)
    }
}
