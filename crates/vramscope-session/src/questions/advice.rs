//! The page's names for the actions that a report advises.

use vramscope_report::Advice;

/// Users of the page have the command, too. Its options stand in for actions that the page does not offer.
pub const PAGE_ADVICE: Advice = Advice {
    any_moment: "the Moment view",
    replay: "the What-if view",
    capacity: "the Device size field of the What-if view",
    capacity_alone: "the Device size field of the What-if view",
    overhead: "the Overhead field of the What-if view",
    release: "`vramscope replay --torch`",
    ..Advice::LIBRARY
};
