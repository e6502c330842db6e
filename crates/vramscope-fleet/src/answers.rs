//! What the forms of an answer are made from.

use crate::budgets::Verdict;
use crate::fleet::Fleet;

/// A fleet, how its ranks were found, and how it stands to its budgets.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetAnswers<'f> {
    /// The paths that were looked at, as they were given.
    pub paths: &'f [String],
    /// Where the ranks were found, as what follows "ranks by".
    pub rule: &'f str,
    /// What was left out or could not be kept, a line each.
    pub notes: &'f [String],
    /// What all ranks say.
    pub fleet: &'f Fleet,
    /// The verdict on each budget.
    pub verdicts: &'f [Verdict],
}
