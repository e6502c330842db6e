//! An out of memory in a few lines, for the moment in which it ends a program.

use std::fmt::Write as _;

use vramscope_analysis::{Frames, Holder, OutOfMemory, Summary};
use vramscope_trace::Trace;

use super::replay::paste;
use crate::advice::Advice;
use crate::causes::is_advised;
use crate::findings::{oom_advice, oom_cause, oom_verdict, recorded_conf};
use crate::names::Names;
use vramscope_basics::units::{bytes, share};

/// The most rows of categories, and of lines.
const ROWS: usize = 4;

/// An out of memory, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct OomInBrief<'r> {
    /// The recording.
    pub trace: &'r Trace,
    /// Whose code its frames are.
    pub frames: &'r Frames,
    /// The request that failed.
    pub oom: &'r OutOfMemory,
    /// Who held the allocated bytes then, by category, most first; empty where nobody can tell.
    pub categories: &'r [Holder],
    /// The answers about the device: what would help is taken from them.
    pub summary: &'r Summary,
}

/// What was asked for and where, who held the device, and what would help: at most 14 lines without styles. The sentences are those
/// of [`report`](crate::report).
pub fn oom_in_brief(answers: &OomInBrief<'_>) -> String {
    let OomInBrief { trace, frames, oom, summary, .. } = *answers;
    let names = Names { trace, frames };
    let total = oom.counters.allocated;
    let conf = recorded_conf(trace);
    let mut out = oom_verdict(&names, conf, oom);
    out.push('\n');
    if let Some(line) = oom.stack.and_then(|stack| frames.own_frame(trace, stack)) {
        let _ = writeln!(out, "  asked for in {}", names.frame(line));
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
    for text in oom_advice(summary, &Advice::LIBRARY) {
        let _ = writeln!(out, "{text}");
    }
    if let Some(best) = summary.best_setting.as_ref().filter(|best| is_advised(best, oom)) {
        let _ = writeln!(out, "  {}", paste(&best.tried.setting.conf));
    }
    out
}
