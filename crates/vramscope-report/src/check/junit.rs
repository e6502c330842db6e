//! Verdicts of a check as JUnit XML, which CI systems show as tests. A budget is a test case, a device a test suite. An exceeded
//! budget is a failure; a budget whose state is unknown is an error.

use std::io;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite, XmlString};
use vramscope_analysis::{BudgetCheck, BudgetStatus, DeviceVerdict};

use crate::answers::CheckAnswers;
use crate::check::sentences::{budget, kind, notes, only_in_baseline, sentence};
use crate::check::text::evidence;
use crate::names::Names;
use crate::shown::Shown;
use crate::text::page::TextOptions;

/// The verdicts as JUnit XML.
///
/// # Errors
///
/// Returns an error of the XML library. No input is known to cause one.
pub fn junit(answers: &CheckAnswers<'_>, options: TextOptions) -> io::Result<String> {
    let mut report = Report::new("vramscope check");
    for device in &answers.devices {
        report.add_test_suite(suite(answers, device, options));
    }
    report.to_string().map_err(io::Error::other)
}

fn suite(answers: &CheckAnswers<'_>, device: &BudgetCheck, options: TextOptions) -> TestSuite {
    let mut suite = TestSuite::new(xml(&format!("{}: device {}", Shown::of(answers.file), device.device)));
    suite.add_test_cases(device.verdicts.iter().map(|v| case(answers, device, v, options)));
    let notes: Vec<String> = notes(answers, device).into_iter().chain(only_in_baseline(answers)).collect();
    if !notes.is_empty() {
        suite.set_system_out(xml(&notes.join("\n")));
    }
    suite
}

/// A test case for one budget. Its name contains no values, because CI systems track tests by name over time.
fn case(
    answers: &CheckAnswers<'_>,
    device: &BudgetCheck,
    verdict: &DeviceVerdict,
    options: TextOptions,
) -> TestCase {
    let names = Names { trace: &answers.recording.trace, frames: answers.frames };
    let text = sentence(&names, &answers.advice, device.device, verdict);
    let option = budget(&verdict.measured);
    let name = match (option, kind(&verdict.measured)) {
        ("max-growth", Some(kind)) => format!("max-growth of {kind} bytes"),
        _ => option.to_owned(),
    };
    let failed = match verdict.status {
        BudgetStatus::Kept => None,
        BudgetStatus::Exceeded => Some((NonSuccessKind::Failure, "exceeded")),
        BudgetStatus::Unknown(_) => Some((NonSuccessKind::Error, "unknown")),
    };
    let status = failed.map_or_else(TestCaseStatus::success, |(kind, ty)| {
        let mut status = TestCaseStatus::non_success(kind);
        let body = format!("{text}\n{}", evidence(answers, device, verdict, options));
        status.set_message(xml(&text)).set_type(ty).set_description(xml(&body));
        status
    });
    let kept = failed.is_none();
    let mut case = TestCase::new(name, status);
    case.set_classname(format!("vramscope.device_{}", device.device));
    if kept {
        case.set_system_out(xml(&text));
    }
    case
}

fn xml(text: &str) -> XmlString {
    XmlString::new(harmless_xml(text))
}

/// Makes text valid in XML 1.0. The library removes control characters and styles, but not U+FFFE and U+FFFF, which are not
/// characters in XML 1.0.
pub fn harmless_xml(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
