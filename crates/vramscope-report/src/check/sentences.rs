//! Verdicts on budgets as sentences, for all output formats of a check.

use vramscope_analysis::{
    BudgetCheck, BudgetStatus, ByteKind, DeviceVerdict, Growth, HighWater, LeakSuspect, Measured,
    OomExplanation, Recorder, Unknown,
};
use vramscope_basics::units::{bytes, count, counted};

use crate::advice::{self, Advice};
use crate::answers::CheckAnswers;
use crate::names::Names;
use crate::report::limitations::quality;

/// The name of a budget, as its option. JSON uses `_` instead of `-`.
pub(crate) fn budget(measured: &Measured) -> &'static str {
    match measured {
        Measured::Peak { kind: ByteKind::Reserved, .. } => "max-reserved",
        Measured::Peak { .. } => "max-peak",
        Measured::Growth { .. } => "max-growth",
        Measured::Category { .. } => "max-category",
        Measured::Leaks(_) => "no-leaks",
        Measured::Ooms { .. } => "no-oom",
    }
}

/// The kind of bytes that a budget limits, if it limits one.
pub(crate) fn kind(measured: &Measured) -> Option<&'static str> {
    let (Measured::Peak { kind, .. } | Measured::Growth { kind, .. }) = measured else { return None };
    Some(match kind {
        ByteKind::Requested => "requested",
        ByteKind::Allocated => "allocated",
        ByteKind::Active => "active",
        ByteKind::Reserved => "reserved",
    })
}

/// The verdict on one line, with the measured value and the budget.
pub(crate) fn sentence(names: &Names<'_>, advice: &Advice, device: i64, verdict: &DeviceVerdict) -> String {
    let measured = &verdict.measured;
    let unknown_because = match verdict.status {
        BudgetStatus::Unknown(why) => Some(why),
        BudgetStatus::Kept | BudgetStatus::Exceeded => None,
    };
    let why = unknown_because.map(|why| unknown(why, device, names.overflowed(device)));
    let subject = match kind(measured) {
        Some(kind) => format!("peak of {kind} bytes on {}", names.trace.device_name(device)),
        None => format!("on {}", names.trace.device_name(device)),
    };
    match measured {
        Measured::Peak { limit, peak, .. } => {
            let budget = format!("{} {}", advice.option(budget(measured)), bytes(*limit));
            let above = peak.peak.bytes.saturating_sub(*limit);
            match why {
                Some(why) => {
                    let seen = match unknown_because {
                        Some(Unknown::EventsDropped) => "in the remaining events",
                        Some(
                            Unknown::Damaged
                            | Unknown::Contradictions
                            | Unknown::EndsEarly
                            | Unknown::CountedMore,
                        ) => "in the recorded events",
                        Some(Unknown::NoSegments) => "in the recorded segments",
                        _ => "when the snapshot was taken",
                    };
                    format!("{subject}: unknown, because {why}; {} {seen}, {budget}", high(peak))
                }
                None if above > 0 => format!("{subject}: {}, {} above {budget}", high(peak), bytes(above)),
                None => format!("{subject}: {}, within {budget}", high(peak)),
            }
        }
        Measured::Growth { growth, peak, baseline, .. } => match (baseline, why) {
            (_, Some(why)) => format!("{subject}: {}; its growth is unknown, because {why}", high(peak)),
            (None, None) => format!("{subject}: {}; the baseline has no device {device}", high(peak)),
            (Some(before), None) => {
                let change = change(peak, before);
                let allowed = bytes(growth.over(before.peak.bytes));
                let set = advice.option(budget(measured));
                let budget = match growth {
                    Growth::Bytes(_) => format!("{set} {allowed}"),
                    Growth::Percent(percent) => format!("{set} {percent}% ({allowed})"),
                };
                let within = if verdict.status == BudgetStatus::Kept { "within" } else { "more than" };
                format!("{subject}: {}, {change}; {within} {budget}", high(peak))
            }
        },
        Measured::Category { category, limit, peak, .. } => {
            let (name, most) = (category.name(), bytes(peak.bytes));
            let budget = format!("{} {name}={}", advice.option(budget(measured)), bytes(*limit));
            match why {
                Some(why) => format!("peak of {name} {subject}: unknown, because {why}; {budget}"),
                None if peak.bytes > *limit => {
                    format!("peak of {name} {subject}: {most}, {} above {budget}", bytes(peak.bytes - limit))
                }
                None => format!("peak of {name} {subject}: {most}, within {budget}"),
            }
        }
        Measured::Leaks(suspects) => match (suspects.split_first(), why) {
            (None, Some(why)) => format!("leaks {subject}: unknown, because {why}"),
            (None, None) => format!("no leak suspected {subject}"),
            (Some((first, rest)), _) => {
                format!("leak suspected {subject}: {}{}", leak(names, first), and_more(rest.len(), "line"))
            }
        },
        Measured::Ooms { explained, more } => match (explained.split_first(), why) {
            (None, Some(why)) => format!("out of memory {subject}: unknown, because {why}"),
            (None, None) => format!("no out of memory {subject}"),
            (Some((first, rest)), _) => {
                format!("out of memory {subject}: {}{}", oom(first), and_more(rest.len() + more, "failure"))
            }
        },
    }
}

/// The limitations of the numbers of a device and of its baseline, one sentence each.
pub(crate) fn notes(answers: &CheckAnswers<'_>, check: &BudgetCheck) -> Vec<String> {
    let mut notes = Vec::new();
    let asks_for_ooms = check.verdicts.iter().any(|v| matches!(v.measured, Measured::Ooms { .. }));
    if check.ooms > 0 && !asks_for_ooms {
        notes.push(format!(
            "The run was out of memory {}; its memory need after that is unknown. {} makes such a failure a finding.",
            if check.ooms == 1 { "once".to_owned() } else { format!("{} times", count(check.ooms)) },
            answers.advice.no_oom
        ));
    }
    let names = Names { trace: &answers.recording.trace, frames: answers.frames };
    let recorder = Recorder::of(answers.recording);
    let quality = |q, overflowed| quality(q, overflowed, recorder, &answers.advice);
    notes.extend(quality(&check.quality, names.overflowed(check.device)));
    let of_baseline = check.baseline_quality.iter().flat_map(|q| quality(q, false));
    notes.extend(of_baseline.map(|limitation| format!("Baseline: {limitation}")));
    if answers.devices.len() > 1 {
        for note in &mut notes {
            note.insert_str(0, &format!("{}: ", names.device(check.device)));
        }
    }
    notes
}

/// The devices that only the baseline used, in a sentence.
pub(crate) fn only_in_baseline(answers: &CheckAnswers<'_>) -> Option<String> {
    let devices: Vec<String> = answers.only_in_baseline.iter().map(i64::to_string).collect();
    let s = if devices.len() == 1 { "" } else { "s" };
    (!devices.is_empty()).then(|| format!("Only the baseline used device{s} {}.", devices.join(", ")))
}

/// A peak in bytes, marked if it is approximate.
fn high(high: &HighWater) -> String {
    format!("{}{}", bytes(high.peak.bytes), if high.exact { "" } else { " (approximate)" })
}

/// The difference between a peak and the baseline's peak.
fn change(peak: &HighWater, before: &HighWater) -> String {
    let by = bytes(peak.peak.bytes.abs_diff(before.peak.bytes));
    match peak.peak.bytes.cmp(&before.peak.bytes) {
        std::cmp::Ordering::Less => format!("{by} below the baseline's {}", high(before)),
        std::cmp::Ordering::Equal => format!("the same as the baseline's {}", high(before)),
        std::cmp::Ordering::Greater => format!("{by} above the baseline's {}", high(before)),
    }
}

fn leak(names: &Names<'_>, l: &LeakSuspect) -> String {
    let (kept, all) = (count(l.kept), count(l.allocations));
    format!(
        "{} retained {kept} of the {all} blocks it allocated, {}",
        names.frame(l.line),
        bytes(l.kept_bytes)
    )
}

fn oom(o: &OomExplanation) -> String {
    format!("a request of {} failed at event {}", bytes(o.request.bytes), count(o.event))
}

fn and_more(n: usize, what: &str) -> String {
    if n == 0 { String::new() } else { format!(", and {}", counted(n as u64, &format!("more {what}"))) }
}

/// Why a verdict is unknown; completes "because".
fn unknown(why: Unknown, device: i64, overflowed: bool) -> String {
    match why {
        Unknown::NoHistory => "no history was recorded".to_owned(),
        Unknown::NoStacks => "no allocation was recorded with its stack".to_owned(),
        Unknown::NoCategories => "the recording has neither categories nor evidence for them".to_owned(),
        Unknown::NoBaseline => format!("the baseline has no device {device}"),
        Unknown::NoBaselineHistory => "no history was recorded in the baseline".to_owned(),
        Unknown::EventsDropped => advice::dropped(overflowed).to_owned(),
        Unknown::BaselineEventsDropped => {
            "the ring buffer probably dropped the oldest events of the baseline".to_owned()
        }
        Unknown::NoFailedRequests => "failed requests are not read from this format".to_owned(),
        Unknown::NoSegments => "not all reserved memory was recorded".to_owned(),
        Unknown::Damaged => "the file is damaged, and events may be missing".to_owned(),
        Unknown::Contradictions => "the recording contradicts itself".to_owned(),
        Unknown::EndsEarly => "the recording ends before the program did".to_owned(),
        Unknown::CountedMore => "the recorder counted more bytes than the events have".to_owned(),
        Unknown::UnknownEvents => "events of an unknown kind may be failed requests".to_owned(),
        Unknown::BaselineIncomplete => "the baseline is damaged or ends early".to_owned(),
    }
}
