//! How a user of the page does what the report advises.

use vramscope_report::Advice;

/// Whoever sees the page has the command, too, whose options name what the page does not ask for.
pub(crate) const ADVICE: Advice = Advice {
    any_moment: "the view Moment",
    replay: "the view What-if",
    capacity: "the size of the device in the view What-if",
    capacity_alone: "the size of the device in the view What-if",
    overhead: "the overhead in the view What-if",
    release: "`vramscope replay --torch`",
    ..Advice::LIBRARY
};
