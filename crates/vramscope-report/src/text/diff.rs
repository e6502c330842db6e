//! What two recordings have in common, and where they part.

use vramscope_analysis::{Both, ChangedEvents, DeviceDiff, Peaks, Recorder};
use vramscope_basics::units::{bytes, count, counted, signed_bytes};

use super::page::{BAD, DIM, GOOD, Page, TextOptions};
use crate::answers::{Compared, DiffAnswers};
use crate::shown::Shown;

/// Two recordings side by side, as text with ANSI styles.
pub fn diff(answers: &DiffAnswers<'_>, options: TextOptions) -> String {
    let first = &answers.recordings.a;
    let mut page = Page::new(first.names(), Recorder::of(first.recording), answers.advice, options);
    for (name, of) in [("A", &answers.recordings.a), ("B", &answers.recordings.b)] {
        page.line(format!("{DIM}{name}  {}{DIM:#}", Shown::of(of.file)));
    }
    for device in &answers.devices {
        page.device_diff(device, &answers.recordings);
    }
    for (name, other, devices) in [("A", "B", &answers.only.a), ("B", "A", &answers.only.b)] {
        for device in devices {
            page.line(format!("\nDevice {device} was used in {name}, and not in {other}."));
        }
    }
    page.out
}

impl Page<'_> {
    fn device_diff(&mut self, device: &DeviceDiff, recordings: &Both<Compared<'_>>) {
        self.line("");
        self.diff_verdict(device);
        self.heading(&format!(
            "{:<20}{:>16}{:>16}{:>18}",
            format!("Device {}", device.device),
            "A",
            "B",
            "difference"
        ));
        self.diff_counts("events", device.events);
        for (name, peak) in [
            ("peak requested", (|p: &Peaks| p.requested.bytes) as fn(&Peaks) -> u64),
            ("peak allocated", |p| p.allocated.bytes),
            ("peak active", |p| p.active.bytes),
            ("peak reserved", |p| p.reserved.bytes),
        ] {
            self.diff_bytes(name, device.peaks.map(peak));
        }
        self.diff_bytes("allocated at the end", device.end.map(|end| end.allocated));
        self.diff_bytes("reserved at the end", device.end.map(|end| end.reserved));
        self.diff_counts("segments at the end", device.end.map(|end| end.segments));
        if !device.has_same_events() {
            self.first_difference(device, recordings);
            self.changed_events(device, recordings);
        }
    }

    fn diff_verdict(&mut self, device: &DeviceDiff) {
        let all = counted(device.events.a as u64, "event");
        let what = "what happened, how many bytes, on which stream, to which block";
        match (device.has_same_events(), device.is_same()) {
            (true, true) => self.styled_words(GOOD, &format!("The same: {all}, one for one ({what}), the same peaks and the same end.")),
            (true, false) => self.styled_words(
                BAD,
                &format!("All {all} are the same, one for one ({what}); what they came to differs, as the table says."),
            ),
            (false, _) if device.same_at_start == 0 => self.styled_words(BAD, "They differ from the first event on."),
            (false, _) => {
                let start = count(device.same_at_start as u64);
                let text = format!("They differ: the first {start} events are the same, one for one ({what}).");
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

    /// The first event that is another in each recording.
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
            self.line(format!("The last {} are alike again.", counted(device.alike_at_end as u64, "event")));
        }
    }

    /// What one of the two has more of, between what is alike.
    fn changed_events(&mut self, device: &DeviceDiff, recordings: &Both<Compared<'_>>) {
        if device.changed.is_empty() {
            self.line("Between, the same events come in another order, or to other blocks.");
            return;
        }
        self.heading("What one has more of");
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

/// An event in words, as `alloc 512 B model.py:12 forward`.
fn event(of: &Compared<'_>, device: i64, number: usize) -> String {
    let Some(event) = of.event(device, number) else { return String::new() };
    format!("{} {} {DIM}{}{DIM:#}", event.action.name(), bytes(event.size), place(of, device, number))
}

/// The line of the user's code where an event happened.
fn place(of: &Compared<'_>, device: i64, number: usize) -> String {
    of.event(device, number).map(|event| of.names().place(event.stack).to_string()).unwrap_or_default()
}
