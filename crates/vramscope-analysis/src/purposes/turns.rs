//! How often a program went round.

/// What stacks tell of how often a program went round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// How many forward passes there were; `None` where stacks tell none.
    pub(crate) forward_passes: Option<u32>,
    /// The first event of all but the model's making, and the first event after each step of an optimizer.
    pub(crate) steps: Vec<usize>,
    /// All steps of an optimizer but the first begin at one stack: there is one optimizer.
    pub(crate) one_optimizer: bool,
}
