//! Compares two open recordings.

use vramscope_analysis::{Both, ComparedHistory, Difference, Finding, LineDifference};
use vramscope_report::{Names, changes};

use crate::ViewError;
use crate::protocol::{Comparison, Held, WhatChanged};
use crate::recording::OpenRecording;

/// The number of lines listed for each change.
const LINES: usize = 5;

/// The maximum number of changes.
const MOST_CHANGES: usize = 100;

/// Compares two devices, given by their positions.
pub(crate) fn compare(of: Both<(&OpenRecording, usize)>) -> Result<Comparison, ViewError> {
    let [a, b] = [of.a, of.b].map(|(file, device)| {
        let history = file.device(device)?.history();
        Ok::<_, ViewError>(ComparedHistory { history, frames: &file.frames, at: None })
    });
    let difference = Difference::of(Both { a: a?, b: b? });
    let names = of.map(|(file, _)| Names { trace: &file.recording.trace, frames: &file.frames });
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
        name: of.category.name().to_owned(),
        a: of.held.a.bytes,
        b: of.held.b.bytes,
    });
    Ok(Comparison {
        verdict: changes::verdict(&difference, "At the peak"),
        changes: difference.findings.iter().take(MOST_CHANGES).map(change).collect(),
        categories: category.collect(),
    })
}
