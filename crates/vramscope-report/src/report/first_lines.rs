//! The first lines of the report: failures and leaks, and the change that helps.

use super::holders::has_stacks;
use super::out_of_memory::causes::{
    capitalized, change, growth, is_advised, oom_advice, oom_verdict, recorded_conf,
};
use anstyle::Style;
use vramscope_analysis::{Certainty, LeakSuspect, OomCauseKind, Recorder, Summary};
use vramscope_basics::units::{bytes, count};

use crate::advice;
use crate::text::lines::{BAD, GOOD};
use crate::text::page::Page;

/// A leak of fewer bytes than one of this many parts of the peak is only in the section about leaks.
const LEAST_PART: u64 = 100;

impl Page<'_> {
    /// The verdict: failures and leaks, in a few lines.
    pub(crate) fn verdict(&mut self, s: &Summary) {
        let mut said = Vec::new();
        if let Some(oom) = s.ooms.first() {
            said.push(oom_verdict(&self.names, recorded_conf(self.names.trace), oom));
        }
        // The sentence about a failed request names its leak.
        let main = s.ooms.first().and_then(|oom| oom.causes.main()).map(|cause| cause.kind);
        let matters = |leak: &&LeakSuspect| {
            leak.kept_bytes >= s.peaks.allocated.bytes / LEAST_PART
                && !matches!(main, Some(OomCauseKind::Leak(_)))
        };
        if let Some(leak) = s.leaks.iter().find(matters) {
            let (kept, all) = (count(leak.kept), count(leak.allocations));
            let (line, held) = (self.names.frame(leak.line), bytes(leak.kept_bytes));
            let leak_at = match leak.certainty {
                Certainty::Shown => "Memory grows at",
                Certainty::Likely => "Leak likely at",
                Certainty::Possible => "Leak possible at",
            };
            let more = growth(leak.growth_per_step(), Some(leak.kept_per_repetition));
            let more = more.map(|(more, each)| format!(", {} more {each}", bytes(more))).unwrap_or_default();
            said.push(format!(
                "{leak_at} {line}: it retained {kept} of the {all} blocks it allocated, {held}{more}."
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
        let told = oom_advice(&self.names, s, &self.advice);
        let main = s.ooms.first().and_then(|oom| oom.causes.main());
        let is_advised = |best| is_advised(best, main);
        let helps = s.remedy.is_some() || s.best_setting.as_ref().is_some_and(is_advised);
        let style = if helps { GOOD } else { Style::new() };
        for text in &told {
            self.styled_words(style, text);
        }
        if !s.ooms.is_empty() && !told.is_empty() {
            self.words(0, &format!("{} compares settings and device sizes.", self.advice.replay));
        }
        if s.preexisting > 0 && s.events > 0 {
            let before = bytes(s.preexisting);
            self.words(
                0,
                &format!("{before} was allocated before recording began and is included in all numbers."),
            );
        }
        if let Some(dropped) = self.confidence_of(s).dropped {
            self.words(0, &dropped);
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
    let less = s.less_reserved.as_ref().map(|less| {
        let (with, peak) = (change(&less.change, false), bytes(less.peak_reserved));
        let approximately = if less.is_exact { "" } else { "about " };
        format!(" {}, the run reserves {approximately}{peak}.", capitalized(&with))
    });
    let less = less.unwrap_or_default();
    format!("The peak was {allocated} allocated, {reserved} reserved. {leaks}{less}")
}
