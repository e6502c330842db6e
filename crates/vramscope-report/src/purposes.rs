//! Words for what memory was for, and for why that is said.

use vramscope_analysis::{Basis, Evidence, Reason, Told};
use vramscope_basics::units::share;

/// Why an allocation is said to be for something, as half a sentence about "it".
pub fn because(reason: Reason) -> String {
    match reason {
        Reason::Said => "the recording says so".to_owned(),
        Reason::Preexisting => "it was there before recording began".to_owned(),
        Reason::Inferred { rule, basis: Basis::Itself } => rule.because.to_owned(),
        Reason::Inferred { rule, basis: Basis::Others } => {
            format!("of others with its stack and its size it is known that {}", rule.because)
        }
        Reason::Inferred { rule, basis: Basis::Rhythm } => {
            format!("as far as the rhythm tells without stacks, {}", rule.because)
        }
    }
}

/// What categories stand on, in a sentence.
pub(crate) fn told_by(told: &[Told]) -> String {
    let total: u64 = told.iter().map(|t| t.bytes).sum();
    let by =
        |evidence| -> u64 { told.iter().filter(|t| t.reason.evidence() == evidence).map(|t| t.bytes).sum() };
    if by(Evidence::Said) == total {
        return "The recording says what each block was for.".to_owned();
    }
    let parts: Vec<String> = Evidence::ALL
        .into_iter()
        .map(|evidence| (by(evidence), words(evidence)))
        .filter(|&(bytes, _)| bytes > 0)
        .map(|(bytes, words)| format!("{} {words}", share(bytes, total)))
        .collect();
    format!("Categories are told by rules: {}.", parts.join(", "))
}

fn words(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Said => "recorded",
        Evidence::Frames => "from stacks",
        Evidence::Lifetime => "from lifetimes",
        Evidence::Likeness => "from others like it",
        Evidence::Nothing => "unknown",
    }
}
