//! Texts about an interval of a recording, shared by the reports and the page.

use vramscope_analysis::{IntervalTotals, Moment, Peak, ProgramPart};
use vramscope_basics::units::{bytes, count};

use crate::names::Names;
use crate::shown::Shown;

/// The name of a part of a recording with this number of events: `backward of step 2`, `backward of step 2 (inferred)`, `step 2`,
/// `events 10 to 99`.
pub fn title(part: &ProgramPart, events: usize, names: Names<'_>) -> String {
    let step = part.step.map(|n| format!("step {}", count(n as u64 + 1)));
    let region = part.region.map(|name| Shown::of(names.trace.strings.get(name)));
    let phase = part.phase.map(|phase| phase.name().to_owned());
    let inferred = if part.is_inferred { " (inferred)" } else { "" };
    match (region.map(String::from).or(phase), step) {
        _ if part.from == Moment::START && part.to.index() == events => "the whole recording".to_owned(),
        (Some(name), Some(step)) => format!("{name} of {step}{inferred}"),
        (Some(name), None) => format!("{name}{inferred}"),
        (None, Some(step)) if part.is_step => step,
        _ => self::events(part),
    }
}

/// The events of a part: `events 10 to 99`, `event 10`, `no event`.
pub(crate) fn events(part: &ProgramPart) -> String {
    let (first, end) = (part.from.index() as u64, part.to.index() as u64);
    match end.saturating_sub(first) {
        0 => "no event".to_owned(),
        1 => format!("event {}", count(first)),
        _ => format!("events {} to {}", count(first), count(end - 1)),
    }
}

/// A summary line: `step 2: 1.20 GiB allocated, 1.10 GiB freed, peak 3.40 GiB, 96.00 MiB retained`.
pub fn headline(title: &str, totals: &IntervalTotals, peak: Peak) -> String {
    format!(
        "{title}: {} allocated, {} freed, peak {}, {} retained",
        bytes(totals.allocated.bytes),
        bytes(totals.freed().bytes),
        bytes(peak.bytes),
        bytes(totals.survived().bytes)
    )
}
