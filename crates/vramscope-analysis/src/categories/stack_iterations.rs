//! The iterations of a program.

use std::ops::Range;

/// What stacks show about the iterations of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StackIterations {
    /// Upper bound on the number of iterations: the number of forward passes; if no module ran, the number of backward passes or
    /// optimizer steps, whichever is larger. `None` if stacks show none of these.
    pub(crate) most_iterations: Option<u32>,
    /// The first event after the model's setup, and the first event after each optimizer step.
    pub(crate) steps: Vec<usize>,
    /// Whether all optimizer steps except the first begin at one stack, so that there is one optimizer.
    pub(crate) one_optimizer: bool,
    /// The events of each model setup, backward pass and optimizer step, in order of their first event. Forward passes are not
    /// included, since several in a row can look like one.
    pub(crate) passes: Vec<Range<u32>>,
}

impl StackIterations {
    /// Returns the index of the pass in [`passes`](Self::passes) that contains this event.
    pub(crate) fn pass_at(&self, event: u32) -> Option<usize> {
        let number = self.passes.partition_point(|pass| pass.start <= event).checked_sub(1)?;
        self.passes[number].contains(&event).then_some(number)
    }
}
