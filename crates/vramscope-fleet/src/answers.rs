//! The input of the output formats.

use vramscope_report::Advice;

use crate::budgets::Verdict;
use crate::fleet::Fleet;

/// A fleet, the source of its ranks, and the verdicts on its budgets.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetAnswers<'f> {
    /// The searched paths, as they were given.
    pub paths: &'f [String],
    /// The source of the rank numbers; completes "ranks by".
    pub rule: &'f str,
    /// Notes about files that were left out and summaries that could not be cached, one line each.
    pub notes: &'f [String],
    /// The combined ranks.
    pub fleet: &'f Fleet,
    /// The verdict on each budget.
    pub verdicts: &'f [Verdict],
    /// The names of the actions that the output advises, such as the button or the command for a replay.
    pub advice: Advice,
}
