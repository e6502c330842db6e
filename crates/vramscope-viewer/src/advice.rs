//! How a user of the page does what the report advises.

use vramscope_report::Advice;

/// Whoever sees the page has the command, too, whose options name what the page does not ask for.
pub(crate) const ADVICE: Advice = Advice {
    any_moment: "the view Moment",
    replay: "`vramscope replay`",
    capacity: "`vramscope replay --capacity`",
    capacity_alone: "`vramscope replay --capacity`",
    overhead: "`vramscope replay --overhead`",
    release: "`vramscope replay --torch`",
    ..Advice::LIBRARY
};
