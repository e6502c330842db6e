//! A short text about an out-of-memory failure, for printing at the moment of failure.

use std::fmt::Write as _;

use vramscope_analysis::{Frames, Holder, OomExplanation, Summary};
use vramscope_basics::units::{bytes, share};
use vramscope_trace::Trace;

use crate::advice::Advice;
use crate::names::Names;
use crate::report::out_of_memory::causes::{is_advised, oom_advice, oom_cause, oom_verdict, recorded_conf};

/// Limit on the rows of categories, and of lines.
const ROWS: usize = 4;

/// An out-of-memory failure and related answers.
#[derive(Debug, Clone, Copy)]
pub struct OomInBrief<'r> {
    /// The recording's trace.
    pub trace: &'r Trace,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
    /// The failed request.
    pub oom: &'r OomExplanation,
    /// Holders of the allocated bytes at the failure, by category, largest first; empty if categories are unknown.
    pub categories: &'r [Holder],
    /// The summary of the device, which contains the advice.
    pub summary: &'r Summary,
}

/// The failed request and its line, the holders, and advice: at most 14 lines without styles. The sentences are those of
/// [`report`](crate::report).
pub fn oom_in_brief(answers: &OomInBrief<'_>) -> String {
    let OomInBrief { trace, frames, oom, summary, .. } = *answers;
    let names = Names { trace, frames };
    let total = oom.counters.allocated;
    let conf = recorded_conf(trace);
    let mut out = oom_verdict(&names, conf, oom);
    out.push('\n');
    if let Some(line) = oom.stack.and_then(|stack| frames.own_frame(trace, stack)) {
        let _ = writeln!(out, "  requested in {}", names.frame(line));
    }
    let mut rows = |holders: &[Holder]| {
        for holder in holders.iter().take(ROWS) {
            let (held, part) = (bytes(holder.bytes), share(holder.bytes, total));
            let _ = writeln!(out, "  {held:>11} {part:>7}  {}", names.holder(holder));
        }
    };
    rows(answers.categories);
    rows(&oom.holders);
    let _ = writeln!(out, "{}", oom_cause(&names, conf, oom));
    for text in oom_advice(&names, summary, &Advice::LIBRARY) {
        let _ = writeln!(out, "{text}");
    }
    if let Some(best) = summary.best_setting.as_ref().filter(|best| is_advised(best, oom.causes.main())) {
        let _ = writeln!(out, "  {}", super::causes::paste(&best.conf));
    }
    out
}
