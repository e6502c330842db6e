//! Verdicts on a fleet's budgets as JUnit XML: each is a test case.

use std::io;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use vramscope_report::{Shown, harmless_xml};

use crate::answers::FleetAnswers;
use crate::budgets::{Status, Verdict};

/// Returns the verdicts as JUnit XML: an exceeded budget is a failure, an unknown one an error.
///
/// # Errors
/// Returns an error of the XML library. No input is known to cause one.
pub fn fleet_junit(answers: &FleetAnswers<'_>) -> io::Result<String> {
    let mut suite = TestSuite::new("fleet");
    suite.add_test_cases(answers.verdicts.iter().map(case));
    let unread =
        answers.fleet.unread.iter().map(|rank| {
            format!("rank {}: {}: {}", rank.rank, Shown::of(&rank.file), Shown::of(&rank.reason))
        });
    let notes: Vec<String> = unread.chain(answers.notes.iter().map(|note| Shown::of(note).into())).collect();
    if !notes.is_empty() {
        suite.set_system_out(harmless_xml(&notes.join("\n")));
    }
    let mut report = Report::new("vramscope fleet");
    report.add_test_suite(suite);
    report.to_string().map_err(io::Error::other)
}

fn case(verdict: &Verdict) -> TestCase {
    let text = harmless_xml(&verdict.text);
    let failed = match verdict.status {
        Status::Kept => None,
        Status::Exceeded => Some((NonSuccessKind::Failure, "exceeded")),
        Status::Unknown => Some((NonSuccessKind::Error, "unknown")),
    };
    let status = failed.map_or_else(TestCaseStatus::success, |(kind, ty)| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(text.as_str()).set_type(ty).set_description(text.as_str());
        status
    });
    let mut case = TestCase::new(verdict.budget, status);
    case.set_classname("vramscope.fleet");
    if failed.is_none() {
        case.set_system_out(text);
    }
    case
}
