//! JSON of `vramscope fleet --json`.

use serde::Serialize;

use crate::answers::FleetAnswers;
use crate::budgets::{Status, Verdict};
use crate::fleet::Fleet;

/// The output of `vramscope fleet --json`.
#[derive(Debug, Serialize)]
pub struct FleetJson<'f> {
    paths: &'f [String],
    ranks_by: &'f str,
    notes: &'f [String],
    /// Whether all budgets are kept; false if one is unknown; null if none was set.
    kept: Option<bool>,
    budgets: &'f [Verdict],
    #[serde(flatten)]
    fleet: &'f Fleet,
}

impl<'f> FleetJson<'f> {
    /// The output for `answers`.
    #[must_use]
    pub fn new(answers: &FleetAnswers<'f>) -> Self {
        let FleetAnswers { paths, rule, notes, fleet, verdicts } = *answers;
        let kept = verdicts.iter().all(|verdict| verdict.status == Status::Kept);
        let kept = (!verdicts.is_empty()).then_some(kept);
        Self { paths, ranks_by: rule, notes, kept, budgets: verdicts, fleet }
    }
}
