//! The report of a range of events.

use vramscope_analysis::{Amount, Holder, IntervalGroup, IntervalSummary, Recorder};

use super::page::{BOLD, DIM, Page, TextOptions};
use crate::answers::SpanAnswers;
use crate::fit::fit;
use crate::names::{Names, first_upper};
use crate::spent::{events, headline, title};
use vramscope_basics::units::{bytes, count};

/// The report of a range of events as text with ANSI styles.
pub fn span_report(answers: &SpanAnswers<'_>, options: TextOptions) -> String {
    let names = Names { trace: &answers.recording.trace, frames: answers.frames };
    let mut page = Page::new(names, Recorder::of(answers.recording), answers.advice, options);
    let all = answers.devices.iter().map(|d| d.events).sum();
    page.file(answers.file, answers.recording, all, answers.devices.len());
    for device in &answers.devices {
        page.span(answers, device);
    }
    page.out
}

impl Page<'_> {
    fn span(&mut self, answers: &SpanAnswers<'_>, s: &IntervalSummary) {
        if answers.devices.len() > 1 {
            let rule = "─".repeat(self.options.width.saturating_sub(12).min(60));
            let name = self.names.device(s.device);
            self.heading(&format!("{name} {rule}"));
        }
        let all = &s.totals.all;
        let name = title(&s.part, s.events, self.names);
        let line = first_upper(&headline(&name, all, s.peak));
        self.out.push('\n');
        self.styled_words(BOLD, &format!("{line}."));
        let events = events(&s.part);
        self.heading(&format!("{:<44}{:>14}{:>12}", first_upper(&events), "bytes", "blocks"));
        self.amount("  allocated before", all.before);
        self.amount("  allocated", all.allocated);
        self.amount("  freed", all.freed());
        self.amount("    allocated before the range", all.freed_before);
        self.amount("    temporary: allocated and freed in it", all.temporary);
        self.amount("  retained: allocated and not freed", all.survived());
        let peak = match s.peak.moment.event() {
            Some(event) => format!("  peak, after event {}", count(event as u64)),
            None => "  peak, before the first event".to_owned(),
        };
        self.amount(&peak, all.at_peak);
        let rise = s.peak.bytes - all.before.bytes;
        self.line(format!("{:<44}{:>14}", "    above the bytes before the range", bytes(rise)));
        self.amount("  allocated after", all.after());
        let left_out = all.allocated.bytes - s.totals.taken.allocated.bytes;
        let heading = format!("By {}", answers.by.name());
        self.heading(&format!(
            "{heading:<13}{:>13}{:>13}{:>13}{:>13}",
            "allocated", "temporary", "retained", "at peak"
        ));
        if s.totals.taken != *all {
            self.words(2, &format!("The filter left out {} of the allocated bytes.", bytes(left_out)));
        }
        for group in s.totals.groups.iter().take(self.options.top) {
            self.spent_group(group);
        }
        if let Some(more) = s.totals.groups.len().checked_sub(self.options.top).filter(|&more| more > 0) {
            self.line(format!("  ... {} more", count(more as u64)));
        }
    }

    fn amount(&mut self, name: &str, of: Amount) {
        self.line(format!("{name:<44}{:>14}{DIM}{:>12}{DIM:#}", bytes(of.bytes), count(of.count)));
    }

    fn spent_group(&mut self, group: &IntervalGroup) {
        let IntervalGroup { origin, key, stack, totals } = group;
        let holder =
            Holder { bytes: 0, requested: 0, count: 0, origin: *origin, key: key.clone(), stack: *stack };
        let columns = [totals.allocated, totals.temporary, totals.survived(), totals.at_peak];
        let row: String = columns.iter().map(|amount| format!("{:>13}", bytes(amount.bytes))).collect();
        let label =
            fit(&self.names.holder(&holder), self.options.width.saturating_sub(13 + row.len() + 2).max(16));
        self.line(format!("{:13}{row}  {label}", ""));
        self.full_stack(*stack);
    }
}
