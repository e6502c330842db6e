//! The text of a diff: the differences between two recordings, and their first differing event.

use std::cmp::Reverse;

use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::{
    Both, Cause, ChangedEvents, DeviceDiff, Finding, Fragmentation, GroupPeakChange, LineDifference, Peaks,
    Recorder, Side,
};
use vramscope_basics::units::{bytes, count, counted, signed_bytes};

use crate::answers::{Compared, DiffAnswers};
use crate::diff::changes;
use crate::fit::fit;
use crate::names::Names;
use crate::report::limitations::quality;
use crate::shown::Shown;
use crate::text::lines::{BAD, BOLD, DIM, GOOD};
use crate::text::page::{Page, TextOptions};

/// Rows of lines below each finding.
const LINES: usize = 3;

/// The default place of the comparison.
const AT_PEAK: &str = "At the peak";

/// Width of the bytes column, in columns.
const BYTES: usize = 14;

/// The comparison of two recordings, as text with ANSI styles.
pub fn diff(answers: &DiffAnswers<'_>, options: TextOptions) -> String {
    let first = &answers.recordings.a;
    let mut page = Page::new(first.names(), Recorder::of(first.recording), answers.advice, options);
    for (name, of) in [("A", &answers.recordings.a), ("B", &answers.recordings.b)] {
        page.line(format!("{DIM}{name}  {}{DIM:#}", Shown::of(of.file)));
    }
    for device in &answers.devices {
        page.device_diff(device, answers);
    }
    for (name, other, devices) in [("A", "B", &answers.only.a), ("B", "A", &answers.only.b)] {
        for device in devices {
            let device = first.names().device(*device);
            page.line(format!("\n{device} was used in {name}, but not in {other}."));
        }
    }
    page.changed_settings(answers);
    page.out
}

impl Page<'_> {
    fn device_diff(&mut self, device: &DeviceDiff, answers: &DiffAnswers<'_>) {
        let recordings = &answers.recordings;
        let names = recordings.map(Compared::names);
        let difference = &device.difference;
        self.line("");
        if !device.is_same() {
            self.what_changed(device, answers, &names);
        } else {
            self.diff_verdict(device);
        }
        for text in
            answers.promised.map(|promised| changes::promise(promised, &device.freed())).unwrap_or_default()
        {
            self.words(0, &text);
        }
        self.heading(&format!(
            "{:<20}{:>16}{:>16}{:>18}",
            names.a.device(device.device),
            "A",
            "B",
            "difference"
        ));
        for (name, peak) in [
            ("peak requested", (|p: &Peaks| p.requested.bytes) as fn(&Peaks) -> u64),
            ("peak allocated", |p| p.allocated.bytes),
            ("peak active", |p| p.active.bytes),
            ("peak reserved", |p| p.reserved.bytes),
        ] {
            self.diff_bytes(name, difference.peaks.map(peak));
        }
        self.diff_bytes("allocated at the end", device.end.map(|end| end.allocated));
        self.diff_bytes("reserved at the end", device.end.map(|end| end.reserved));
        self.diff_counts("segments at the end", device.end.map(|end| end.segments));
        self.diff_counts("out of memory", difference.ooms);
        if device.is_same() {
            return;
        }
        self.held(device, answers.at.as_deref(), &names);
        self.heading("Event by event");
        self.diff_verdict(device);
        self.diff_counts("events", device.events);
        if !device.has_same_events() {
            self.first_difference(device, recordings);
            self.changed_events(device, recordings);
        }
        self.diff_notes(device, answers);
    }

    /// The ranked list of findings with their lines.
    fn what_changed(&mut self, device: &DeviceDiff, answers: &DiffAnswers<'_>, names: &Both<Names<'_>>) {
        let difference = &device.difference;
        let at = answers.at.as_deref().unwrap_or(AT_PEAK);
        self.styled_words(BAD, &changes::verdict(difference, at));
        for side in Side::BOTH
            .into_iter()
            .filter(|&side| *difference.ooms.of(side) > *difference.ooms.of(side.other()))
        {
            let times = counted(*difference.ooms.of(side) as u64, "request");
            let text = format!(
                "{times} failed in {}: the memory need of the rest of that run is unknown.",
                changes::side(side)
            );
            self.words(0, &text);
        }
        if difference.findings.is_empty() {
            return;
        }
        self.heading("What changed, most relevant first");
        let is_told = |finding: &&Finding| {
            finding.counts || finding.difference() == 0 || matches!(finding.cause, Cause::Leak(_))
        };
        let (told, rest): (Vec<&Finding>, Vec<&Finding>) = difference.findings.iter().partition(is_told);
        for finding in told.iter().take(self.options.top) {
            let by = finding.difference();
            let by = if by == 0 { String::new() } else { signed_bytes(by) };
            self.hanging(&format!("{by:>BYTES$}  "), &changes::finding(finding, names));
            if finding.lines.len() > 1 || finding.cause.explains() {
                self.difference_rows(&finding.lines, names, LINES, BYTES + 2);
            }
        }
        self.more_rows(told.len().saturating_sub(self.options.top), BYTES + 2);
        let rest: i64 = rest.iter().map(|finding| finding.difference()).sum();
        let rest = match rest {
            0 => "Nothing else changed.".to_owned(),
            rest => {
                format!("All other differences: {} in total, each less than one percent.", signed_bytes(rest))
            }
        };
        self.words(BYTES + 2, &rest);
    }

    /// Allocated bytes at the compared events, by category and by line.
    fn held(&mut self, device: &DeviceDiff, at: Option<&str>, names: &Both<Names<'_>>) {
        let difference = &device.difference;
        self.heading(&format!("{:<20}{:>16}{:>16}{:>18}", at.unwrap_or(AT_PEAK), "A", "B", "difference"));
        for of in &difference.categories {
            self.diff_bytes(&crate::names::category(of.category), of.held.map(|held| held.bytes));
        }
        self.diff_bytes("allocated", difference.counters.map(|counters| counters.allocated));
        let rounding = |f: &Option<Fragmentation>| f.as_ref().map_or(0, |f| f.internal);
        self.diff_bytes("  lost to rounding", difference.fragmentation.map(rounding));
        let between = |f: &Option<Fragmentation>| f.as_ref().map_or(0, |f| f.external);
        self.diff_bytes("reserved and free", difference.fragmentation.map(between));
        let differing: Vec<LineDifference> =
            difference.lines.iter().copied().filter(|line| line.held.a.bytes != line.held.b.bytes).collect();
        if !differing.is_empty() {
            self.line(format!("{DIM}by line{DIM:#}"));
            self.difference_rows(&differing, names, self.options.top, 0);
        }
        self.highest(device, names);
    }

    /// Each line at its own peak.
    fn highest(&mut self, device: &DeviceDiff, names: &Both<Names<'_>>) {
        let bytes_of = |change: &GroupPeakChange| change.group.held().map(|held| held.bytes);
        let mut differing: Vec<_> =
            device.highest.iter().filter(|change| !bytes_of(change).is_same()).collect();
        if differing.is_empty() {
            return;
        }
        differing.sort_by_key(|change| Reverse(bytes_of(change).difference().unsigned_abs()));
        self.line(format!("{DIM}by line, each at its own peak{DIM:#}"));
        for change in differing.iter().take(self.options.top) {
            let held = bytes_of(change);
            let amounts = changes::was(held, change.group.only_in());
            self.difference_row(held, &changes::holder(&change.group, names), &amounts, 0);
        }
        self.more_rows(differing.len().saturating_sub(self.options.top), BYTES + 2);
    }

    fn difference_rows(
        &mut self,
        lines: &[LineDifference],
        names: &Both<Names<'_>>,
        top: usize,
        indent: usize,
    ) {
        for line in lines.iter().take(top) {
            let held = line.held.map(|held| held.bytes);
            self.difference_row(held, &changes::line(line, names), &changes::amounts(line), indent);
        }
        self.more_rows(lines.len().saturating_sub(top), indent + BYTES + 2);
    }

    fn difference_row(&mut self, held: Both<u64>, label: &str, amounts: &str, indent: usize) {
        let by = changes::difference(held);
        let room = self.options.width.saturating_sub(indent + BYTES + 4 + amounts.width()).max(16);
        let label = fit(label, room);
        self.line(format!("{:indent$}{by:>BYTES$}  {BOLD}{label}{BOLD:#}  {DIM}{amounts}{DIM:#}", ""));
    }

    fn more_rows(&mut self, more: usize, indent: usize) {
        if more > 0 {
            self.line(format!("{:indent$}{DIM}... {} more{DIM:#}", "", count(more)));
        }
    }

    fn changed_settings(&mut self, answers: &DiffAnswers<'_>) {
        if answers.settings.is_empty() {
            return;
        }
        self.heading("Allocator settings that differ");
        for setting in &answers.settings {
            let value = |value: &Option<String>| Shown::of(value.as_deref().unwrap_or("not set")).to_string();
            let values = setting.values.map(value);
            self.words(2, &format!("{}: {} in A, {} in B", Shown::of(&setting.key), values.a, values.b));
        }
    }

    /// The limitations of the numbers.
    fn diff_notes(&mut self, device: &DeviceDiff, answers: &DiffAnswers<'_>) {
        let of = |side: Side| {
            let of = answers.recordings.of(side);
            let overflowed = of.names().overflowed(device.device);
            let limitations = quality(
                device.difference.quality.of(side),
                overflowed,
                Recorder::of(of.recording),
                &answers.advice,
            );
            limitations.into_iter().map(move |limitation| format!("{}: {limitation}", changes::side(side)))
        };
        let notes: Vec<String> = Side::BOTH.into_iter().flat_map(of).collect();
        if !notes.is_empty() {
            self.heading("Limitations of these numbers");
        }
        for note in notes {
            self.words(2, &note);
        }
    }

    fn diff_verdict(&mut self, device: &DeviceDiff) {
        let all = counted(device.events.a as u64, "event");
        let what = "same action, bytes, stream and block";
        match (device.has_same_events(), device.is_same()) {
            (true, true) => self.styled_words(GOOD, &format!("The recordings are the same: {all}, one for one ({what}), the same peaks and the same end.")),
            (true, false) => self.styled_words(
                BAD,
                &format!("All {all} are the same, one for one ({what}); the resulting bytes differ, as the table shows."),
            ),
            (false, _) if device.same_at_start == 0 => self.styled_words(BAD, "The recordings differ from the first event on."),
            (false, _) => {
                let start = count(device.same_at_start as u64);
                let text = format!("The recordings differ: only the first {start} events are the same, one for one ({what}).");
                self.styled_words(BAD, &text);
            }
        }
    }

    fn diff_bytes(&mut self, name: &str, of: Both<u64>) {
        let by = of.b.wrapping_sub(of.a).cast_signed();
        self.diff_row(name, of.map(|&n| bytes(n)), (by != 0).then(|| signed_bytes(by)));
    }

    fn diff_counts(&mut self, name: &str, of: Both<usize>) {
        let sign = if of.b < of.a { '-' } else { '+' };
        let by = (!of.is_same()).then(|| format!("{sign}{}", count(of.b.abs_diff(of.a))));
        self.diff_row(name, of.map(|&n| count(n)), by);
    }

    fn diff_row(&mut self, name: &str, of: Both<String>, difference: Option<String>) {
        let difference = difference.unwrap_or_else(|| "the same".to_owned());
        self.line(format!("{name:<20}{:>16}{:>16}{difference:>18}", of.a, of.b));
    }

    /// The first differing event of each recording.
    fn first_difference(&mut self, device: &DeviceDiff, recordings: &Both<Compared<'_>>) {
        let at = device.same_at_start;
        self.heading(&format!("Event {} is the first that differs", count(at as u64)));
        for (name, of, events) in
            [("A", &recordings.a, device.events.a), ("B", &recordings.b, device.events.b)]
        {
            let text =
                if at < events { event(of, device.device, at) } else { "the recording has ended".to_owned() };
            self.line(format!("  {name}  {text}"));
        }
        if device.alike_at_end > 0 {
            self.line(format!("The last {} match again.", counted(device.alike_at_end as u64, "event")));
        }
    }

    /// The kinds of events that one recording has more of, between the matching start and end.
    fn changed_events(&mut self, device: &DeviceDiff, recordings: &Both<Compared<'_>>) {
        if device.changed.is_empty() {
            self.line("Between these, the same events are in another order, or refer to other blocks.");
            return;
        }
        self.heading("Events that one recording has more of");
        self.line(format!("{DIM}{:>10}{:>12}{:>14}{DIM:#}", "times in A", "in B", "bytes each"));
        for changed in device.changed.iter().take(self.options.top) {
            let ChangedEvents { action, size, count: times, first } = *changed;
            let place = match (first.a, first.b) {
                (Some(first), _) => place(&recordings.a, device.device, first),
                (None, Some(first)) => place(&recordings.b, device.device, first),
                (None, None) => String::new(),
            };
            self.line(format!(
                "{:>10}{:>12}{:>14}  {} {DIM}{place}{DIM:#}",
                count(times.a as u64),
                count(times.b as u64),
                bytes(size),
                action.name()
            ));
        }
        if let Some(more) = device.changed.len().checked_sub(self.options.top).filter(|&more| more > 0) {
            self.line(format!("{:>36}  ... {} more", "", count(more as u64)));
        }
    }
}

/// An event, as `alloc 512 B model.py:12 forward`.
fn event(of: &Compared<'_>, device: i64, number: usize) -> String {
    let Some(event) = of.event(device, number) else { return String::new() };
    format!("{} {} {DIM}{}{DIM:#}", event.action.name(), bytes(event.size), place(of, device, number))
}

/// The line of user code of an event.
fn place(of: &Compared<'_>, device: i64, number: usize) -> String {
    of.event(device, number).map(|event| of.names().place(event.stack).to_string()).unwrap_or_default()
}
