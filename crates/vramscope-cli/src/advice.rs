//! The options of this command, in sentences of reports.

use vramscope::report::Advice;

/// What a report advises is done with this command.
pub(crate) const ADVICE: Advice = Advice {
    any_moment: "`--at EVENT`",
    replay: "`vramscope replay`",
    capacity: "`--capacity` or `--gpu`",
    capacity_alone: "`--capacity`",
    overhead: "`--overhead`",
    release: "`--torch`",
    device: "`--device`",
    no_oom: "`--no-oom`",
    budget_prefix: "--",
};
