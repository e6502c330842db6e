//! Tool and argument names of the MCP server, for advice in reports.

use vramscope_report::Advice;

/// Reports advise these tools.
pub(super) const ADVICE: Advice = Advice {
    any_moment: "`at`",
    replay: "`replay`",
    capacity: "`capacity` or `gpu` of `replay`",
    capacity_alone: "`capacity` of `replay`",
    overhead: "`overhead` of `replay`",
    release: "`torch` of `replay`",
    device: "`device`",
    no_oom: "`no_oom`",
    ..Advice::LIBRARY
};
