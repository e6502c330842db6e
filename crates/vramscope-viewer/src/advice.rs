//! How a user of the page does what the report advises.

use vramscope_report::Advice;

/// Whoever sees the page has the command, too, whose options name what the page does not ask for.
pub(crate) const ADVICE: Advice = Advice {
    any_moment: "the view Moment",
    replay: "the view What-if",
    capacity: "the field Device size of What-if",
    capacity_alone: "the field Device size of What-if",
    overhead: "the field Overhead of What-if",
    release: "`vramscope replay --torch`",
    ..Advice::LIBRARY
};
