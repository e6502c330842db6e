//! Texts about categories and their evidence.

use vramscope_analysis::{Basis, Evidence, Reason, ReasonGroup};
use vramscope_basics::units::share;

/// The reason for a category, as a clause about "it".
pub fn because(reason: Reason) -> String {
    match reason {
        Reason::Said => "recorded".to_owned(),
        Reason::Preexisting => "it was live before recording began".to_owned(),
        Reason::Inferred { rule, basis: Basis::Itself } => rule.because.to_owned(),
        Reason::Inferred { rule, basis: Basis::Others } => {
            format!("as for other allocations with its stack and size: {}", rule.because)
        }
        Reason::Inferred { rule, basis: Basis::Rhythm } => {
            format!("inferred from repeating allocations, without stacks: {}", rule.because)
        }
    }
}

/// The sources of categories, in a sentence.
pub(crate) fn told_by(told: &[ReasonGroup]) -> String {
    let total: u64 = told.iter().map(|t| t.bytes).sum();
    let by =
        |evidence| -> u64 { told.iter().filter(|t| t.reason.evidence() == evidence).map(|t| t.bytes).sum() };
    if by(Evidence::Said) == total {
        return "The category of each block was recorded.".to_owned();
    }
    let parts: Vec<String> = Evidence::ALL
        .into_iter()
        .map(|evidence| (by(evidence), words(evidence)))
        .filter(|&(bytes, _)| bytes > 0)
        .map(|(bytes, words)| format!("{} {words}", share(bytes, total)))
        .collect();
    format!("Sources of categories: {}.", parts.join(", "))
}

fn words(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Said => "recorded",
        Evidence::Frames => "from stacks",
        Evidence::Lifetime => "from lifetimes",
        Evidence::Likeness => "from similar allocations",
        Evidence::Nothing => "unknown",
    }
}
