//! Compares two open recordings.

use serde::Serialize;
use vramscope_analysis::{Both, Cancel, Finding, LineDifference};
use vramscope_report::changes;

use crate::SessionError;
use crate::questions::recording::OpenRecording;
use crate::{DiffRequest, difference};

/// The changes from one recording to another at the peaks of their allocated bytes, in the wording of `vramscope diff`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Comparison {
    /// The difference of the peaks, in a sentence.
    pub(crate) verdict: String,
    /// Most significant first.
    pub(crate) changes: Vec<WhatChanged>,
    /// Empty if one of the two recordings has no categories.
    pub(crate) categories: Vec<Held>,
}

/// One change.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct WhatChanged {
    /// The rule that found it, as in `vramscope diff --json`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// Its bytes in the first recording, and in the second.
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// Whether it is more than one percent of the total difference.
    pub(crate) counts: bool,
    /// Its lines with the largest differences.
    pub(crate) lines: Vec<Held>,
}

/// The bytes of a line or a category in both recordings.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) a: u64,
    pub(crate) b: u64,
}

/// The number of lines listed for each change.
const LINES: usize = 5;

/// The maximum number of changes.
const MOST_CHANGES: usize = 100;

/// Compares two devices, given by their positions.
pub(crate) fn compare(
    of: Both<(&OpenRecording, usize)>,
    request: &DiffRequest,
    cancel: &Cancel,
) -> Result<Comparison, SessionError> {
    let [a, b] = [of.a, of.b].map(|(file, device)| {
        Ok::<_, SessionError>((&*file.session, file.device(device)?.history().position()))
    });
    let difference = difference(Both { a: a?, b: b? }, request, cancel)?;
    let names = of.map(|(file, _)| file.session.names());
    let at = request.at();
    let at = at.as_deref().unwrap_or("At the peak");
    let line = |line: &LineDifference| Held {
        name: changes::line(line, &names),
        a: line.held.a.bytes,
        b: line.held.b.bytes,
    };
    let change = |finding: &Finding| WhatChanged {
        kind: finding.cause.name(),
        text: changes::finding(finding, &names),
        a: finding.held.a.bytes,
        b: finding.held.b.bytes,
        counts: finding.counts,
        lines: finding.lines.iter().take(LINES).map(line).collect(),
    };
    let categories = difference.categories.iter();
    let category = categories.map(|of| Held {
        name: of.category.name().replace('_', " "),
        a: of.held.a.bytes,
        b: of.held.b.bytes,
    });
    Ok(Comparison {
        verdict: changes::verdict(&difference, at),
        changes: difference.findings.iter().take(MOST_CHANGES).map(change).collect(),
        categories: category.collect(),
    })
}
