//! The tools and their arguments, in sentences of reports.

use vramscope::report::Advice;

/// What a report advises is done with these tools.
pub(super) const ADVICE: Advice = Advice {
    any_moment: "`at`",
    replay: "`replay`",
    capacity: "`capacity` or `gpu` of `replay`",
    capacity_alone: "`capacity` of `replay`",
    overhead: "`overhead` of `replay`",
    release: "`torch` of `replay`",
    device: "`device`",
    ..Advice::LIBRARY
};
