//! The report of a recording: the verdict first, then one section per topic.

use anstyle::Style;
use vramscope_analysis::{Recorder, Summary};

use super::holders::has_stacks;
use super::page::{BAD, GOOD, Page, TextOptions};
use crate::advice;
use crate::answers::Answers;
use crate::causes;
use crate::doubts::not_followed;
use crate::findings::{self, recorded_conf};
use crate::names::Names;
use crate::trust::Trust;
use vramscope_basics::units::{bytes, count};

/// The report of a recording as text with ANSI styles.
pub fn report(answers: &Answers<'_>, options: TextOptions) -> String {
    let names = Names { trace: &answers.recording.trace, frames: answers.frames };
    let mut page = Page::new(names, Recorder::of(answers.recording), answers.advice, options);
    let events = answers.devices.iter().map(|d| d.events).sum();
    page.file(answers.file, answers.recording, events, answers.devices.len());
    for device in &answers.devices {
        page.device(answers, device);
    }
    page.out
}

impl Page<'_> {
    fn device(&mut self, answers: &Answers<'_>, s: &Summary) {
        if answers.devices.len() > 1 {
            let rule = "─".repeat(self.options.width.saturating_sub(12).min(60));
            let name = self.names.device(s.device);
            self.heading(&format!("{name} {rule}"));
        }
        if s.events == 0 && s.end.segments == 0 {
            if s.device_use.is_some() || s.libraries.as_ref().is_some_and(|uses| !uses.is_empty()) {
                self.libraries(s);
                let q = &s.quality;
                if q.older_allocations > 0 || q.attached || not_followed(self.names.trace).is_some() {
                    self.trust(s);
                }
            } else {
                self.line("Nothing was recorded on this device.");
            }
            return;
        }
        self.verdict(s);
        self.chart(s);
        self.bytes_table(answers, s);
        self.libraries(s);
        self.holders(answers, s);
        self.allocator_findings(s);
        self.leaks(s);
        self.idle(s);
        self.referrers(s);
        self.fragmentation(s);
        self.collectives(s);
        self.serving(s);
        self.private_pools(s);
        self.host_memory(s);
        let conf = recorded_conf(&answers.recording.trace);
        for oom in &s.ooms {
            self.oom(s.time_us.map(|t| t.0), oom, conf);
        }
        if let Some(unexplained) = &s.unexplained_ooms {
            let summary = findings::unexplained_ooms(unexplained);
            self.words(2, &format!("... {summary} {} shows any event.", self.advice.any_moment));
        }
        self.estimates(s);
        self.steps(s);
        self.phases(s);
        self.regions(s);
        self.churn(s);
        self.trust(s);
    }

    /// The verdict: failures and leaks, in a few lines.
    fn verdict(&mut self, s: &Summary) {
        let mut said = Vec::new();
        if let Some(oom) = s.ooms.first() {
            said.push(findings::oom_verdict(&self.names, recorded_conf(self.names.trace), oom));
        }
        if let Some(leak) = s.leaks.first() {
            let (kept, all) = (count(leak.kept), count(leak.allocations));
            let (line, held) = (self.names.frame(leak.line), bytes(leak.kept_bytes));
            said.push(format!(
                "Leak suspected at {line}: it retained {kept} of the {all} blocks it allocated, {held}."
            ));
        }
        let style = if said.is_empty() { GOOD } else { BAD };
        if said.is_empty() {
            said.push(quiet(s, self.recorder));
        }
        self.out.push('\n');
        for text in said {
            self.styled_words(style, &text);
        }
        let told = findings::oom_advice(s, &self.advice);
        let main = s.ooms.first().and_then(|oom| oom.causes.main());
        let is_advised = |best| causes::is_advised(best, main);
        let helps = s.remedy.is_some() || s.best_setting.as_ref().is_some_and(is_advised);
        let style = if helps { GOOD } else { Style::new() };
        for text in &told {
            self.styled_words(style, text);
        }
        if !told.is_empty() {
            self.words(0, &format!("{} compares settings and device sizes.", self.advice.replay));
        }
        if s.preexisting > 0 && s.events > 0 {
            let before = bytes(s.preexisting);
            self.words(
                0,
                &format!("{before} was allocated before recording began and is included in all numbers."),
            );
        }
        if let Some(dropped) = self.trust_of(s).dropped {
            self.words(0, &dropped);
        }
    }

    fn trust_of(&self, s: &Summary) -> Trust {
        Trust::of(&s.quality, self.names.overflowed(s.device), self.recorder, &self.advice)
    }

    /// The limitations of the numbers.
    fn trust(&mut self, s: &Summary) {
        let mut doubts = self.trust_of(s).doubts;
        doubts.extend(not_followed(self.names.trace));
        if doubts.is_empty() {
            return;
        }
        self.heading("Limitations of these numbers");
        for doubt in doubts {
            self.words(2, &doubt);
        }
    }
}

/// The verdict on a recording of another tool: its format may have neither failed requests nor segments.
fn quiet_of_other(s: &Summary) -> String {
    if s.events == 0 {
        return format!(
            "{} in use. This format is a single moment, without a history.",
            bytes(s.end.allocated)
        );
    }
    let reserved = match s.peaks.reserved.bytes {
        0 => String::new(),
        peak => format!(", {} reserved", bytes(peak)),
    };
    let leaks = if has_stacks(s) {
        "No leak is suspected."
    } else {
        "Without recorded stacks, holders and leaks are unknown."
    };
    let allocated = bytes(s.peaks.allocated.bytes);
    format!(
        "The peak was {allocated} allocated{reserved}. {leaks} Failed requests are not read from this format."
    )
}

/// The verdict if nothing went wrong.
fn quiet(s: &Summary, recorder: Recorder) -> String {
    if recorder == Recorder::Other {
        return quiet_of_other(s);
    }
    if s.events == 0 {
        return format!(
            "{} allocated of {} reserved when the snapshot was taken. No history was recorded: call {} first to see a peak.",
            bytes(s.end.allocated),
            bytes(s.end.reserved),
            advice::record(recorder)
        );
    }
    let leaks = if has_stacks(s) {
        "No request failed and no leak is suspected."
    } else {
        "No request failed. Without recorded stacks, holders and leaks are unknown."
    };
    let (allocated, reserved) = (bytes(s.peaks.allocated.bytes), bytes(s.peaks.reserved.bytes));
    format!("The peak was {allocated} allocated, {reserved} reserved. {leaks}")
}
