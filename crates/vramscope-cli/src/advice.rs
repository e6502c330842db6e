//! Option names of the command, for advice in reports.

use vramscope::report::Advice;

/// Reports advise the options and subcommands of this command.
pub(crate) const ADVICE: Advice = Advice {
    any_moment: "`--at EVENT`",
    replay: "`vramscope replay`",
    capacity: "`--capacity` or `--gpu`",
    capacity_alone: "`--capacity`",
    overhead: "`--overhead`",
    release: "`--torch`",
    device: "`--device`",
    no_oom: "`--no-oom`",
    option_prefix: "--",
};
