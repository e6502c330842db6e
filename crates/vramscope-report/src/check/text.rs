//! The text of a check: exceeded budgets first, with the holders.

use vramscope_analysis::{
    Both, BudgetCheck, BudgetStatus, ByteKind, DeviceVerdict, HolderChange, Measured, OomExplanation,
    Recorder,
};
use vramscope_basics::units::{bytes, count, counted};

use crate::advice::remedy;
use crate::answers::CheckAnswers;
use crate::check::sentences::{notes, only_in_baseline, sentence};
use crate::diff::changes;
use crate::fit::fit;
use crate::names::Names;
use crate::shown::Shown;
use crate::text::lines::{BAD, BOLD, DIM, GOOD};
use crate::text::page::{Page, TextOptions};

/// The verdicts on a recording's budgets, as text with ANSI styles.
pub fn check(answers: &CheckAnswers<'_>, options: TextOptions) -> String {
    let mut page = Page::of_check(answers, options);
    let events = answers.devices.iter().map(|d| d.events).sum();
    page.file(answers.file, answers.recording, events, answers.devices.len());
    if let Some(baseline) = answers.baseline {
        let room = options.width.saturating_sub(16).max(20);
        page.line(format!("{DIM}compared with {}{DIM:#}", fit(&Shown::of(baseline), room)));
    }
    let mut verdicts: Vec<(&BudgetCheck, &DeviceVerdict)> =
        answers.devices.iter().flat_map(|d| d.verdicts.iter().map(move |v| (d, v))).collect();
    verdicts.sort_by_key(|(_, v)| urgency(v.status));
    page.out.push('\n');
    page.summary(&verdicts);
    let mut before = None;
    for (device, verdict) in verdicts {
        // Kept budgets form a list; others are separated by blank lines, because of their evidence.
        if before.replace(verdict.status) != Some(BudgetStatus::Kept) {
            page.out.push('\n');
        }
        page.budget(device, verdict);
    }
    let notes: Vec<String> = answers.devices.iter().flat_map(|d| notes(answers, d)).collect();
    let notes: Vec<String> = notes.into_iter().chain(only_in_baseline(answers)).collect();
    if !notes.is_empty() {
        page.heading("Limitations of these numbers");
    }
    for note in notes {
        page.words(2, &note);
    }
    page.out
}

/// The evidence for a verdict: the lines that hold the memory, or advice if the verdict is unknown. Empty for a kept budget.
pub(crate) fn evidence(
    answers: &CheckAnswers<'_>,
    device: &BudgetCheck,
    verdict: &DeviceVerdict,
    options: TextOptions,
) -> String {
    let mut page = Page::of_check(answers, options);
    page.evidence(device, verdict);
    page.out
}

fn urgency(status: BudgetStatus) -> u8 {
    match status {
        BudgetStatus::Exceeded => 0,
        BudgetStatus::Unknown(_) => 1,
        BudgetStatus::Kept => 2,
    }
}

impl<'r> Page<'r> {
    fn of_check(answers: &CheckAnswers<'r>, options: TextOptions) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        Self::new(names, Recorder::of(answers.recording), answers.advice, options)
    }

    /// A summary, as `1 budget exceeded, 2 kept.`
    fn summary(&mut self, verdicts: &[(&BudgetCheck, &DeviceVerdict)]) {
        let counts = ["exceeded", "unknown", "kept"].iter().zip(0..).filter_map(|(words, which)| {
            let n = verdicts.iter().filter(|(_, v)| urgency(v.status) == which).count();
            (n > 0).then_some((n, words))
        });
        let text = counts.enumerate().map(|(i, (n, words))| match i {
            0 => format!("{} {words}", counted(n as u64, "budget")),
            _ => format!(", {} {words}", count(n)),
        });
        let kept = verdicts.iter().all(|(_, v)| v.status == BudgetStatus::Kept);
        self.styled_words(if kept { GOOD } else { BAD }, &format!("{}.", text.collect::<String>()));
    }

    fn budget(&mut self, device: &BudgetCheck, verdict: &DeviceVerdict) {
        let (style, word) = match verdict.status {
            BudgetStatus::Kept => (GOOD, "kept"),
            BudgetStatus::Exceeded => (BAD, "exceeded"),
            BudgetStatus::Unknown(_) => (BAD, "unknown"),
        };
        // Not shortened, for searching and copying.
        let text = sentence(&self.names, &self.advice, device.device, verdict);
        self.line(format!("{style}{word:<9}{style:#}  {text}"));
        self.evidence(device, verdict);
    }

    fn evidence(&mut self, device: &BudgetCheck, verdict: &DeviceVerdict) {
        match verdict.status {
            BudgetStatus::Kept => return,
            BudgetStatus::Unknown(why) => return self.words(2, &remedy(why, self.recorder, &self.advice)),
            BudgetStatus::Exceeded => {}
        }
        let top = self.options.top;
        match &verdict.measured {
            Measured::Peak { kind, peak, holders, .. } => {
                let when = match peak.peak.moment.event() {
                    Some(event) => format!("after event {}", count(event)),
                    None if device.events == 0 => "when the snapshot was taken".to_owned(),
                    None => "before the first event".to_owned(),
                };
                self.words(
                    2,
                    &match kind {
                        ByteKind::Allocated => format!("holders {when}:"),
                        _ => format!("holders {when}, with {} allocated:", bytes(peak.allocated)),
                    },
                );
                self.holder_rows(holders, peak.allocated, top);
            }
            Measured::Category { peak, holders, .. } => {
                let when = peak.moment.event().map_or("before the first event".to_owned(), |event| {
                    format!("after event {}", count(event as u64))
                });
                self.words(2, &format!("holders {when}:"));
                self.holder_rows(holders, peak.bytes, top);
            }
            Measured::Growth { kind, peak, baseline, lines, .. } => {
                if *kind != ByteKind::Allocated {
                    let before = bytes(baseline.map_or(0, |b| b.allocated));
                    let now = bytes(peak.allocated);
                    self.words(
                        2,
                        &format!("allocated bytes at this peak: {now}; at the baseline's peak: {before}"),
                    );
                }
                self.words(
                    2,
                    match lines.as_slice() {
                        [] => "no line holds more than at the baseline's peak",
                        _ => "lines that hold more than at the baseline's peak:",
                    },
                );
                self.grown_rows(lines, top);
            }
            Measured::Leaks(suspects) => {
                for leak in suspects.iter().take(top) {
                    self.leak(leak);
                }
                self.more(suspects.len().saturating_sub(top));
            }
            Measured::Ooms { explained, .. } => {
                explained.iter().take(1).for_each(|oom| self.failure(oom, top));
            }
        }
    }

    fn grown_rows(&mut self, lines: &[HolderChange], top: usize) {
        for line in lines.iter().take(top) {
            let held = line.held().map(|held| held.bytes);
            let was = changes::was(held, line.only_in());
            let room = self.options.width.saturating_sub(2 + 12 + 2 + 2 + was.len()).max(16);
            let label = fit(&changes::holder(line, &Both { a: self.names, b: self.names }), room);
            self.line(format!(
                "  {:>12}  {BOLD}{label}{BOLD:#}  {DIM}{was}{DIM:#}",
                changes::difference(held)
            ));
        }
        self.more(lines.len().saturating_sub(top));
    }

    fn failure(&mut self, oom: &OomExplanation, top: usize) {
        if let Some(line) = oom.stack.and_then(|st| self.names.frames.own_frame(self.names.trace, st)) {
            let line = self.names.frame(line);
            self.words(2, &format!("in {line}"));
        }
        self.words(2, &format!("holders of the {} allocated at that event:", bytes(oom.counters.allocated)));
        self.holder_rows(&oom.holders, oom.counters.allocated, top);
    }

    fn more(&mut self, more: usize) {
        if more > 0 {
            self.words(2, &format!("... {} more", count(more)));
        }
    }
}
