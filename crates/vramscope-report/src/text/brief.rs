//! An out of memory in a few lines, for the moment in which it ends a program.

use std::fmt::Write as _;

use vramscope_analysis::{BestSetting, Frames, Holder, OutOfMemory};
use vramscope_trace::Trace;

use super::replay::paste;
use crate::advice::Advice;
use crate::findings::{best_setting, could_expand, oom_cause, oom_verdict};
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
    /// The setting that would have served best.
    pub best_setting: Option<&'r BestSetting>,
}

/// What was asked for and where, who held the device, and what would help: at most 14 lines without styles.
pub fn oom_in_brief(answers: &OomInBrief<'_>) -> String {
    let OomInBrief { trace, frames, oom, .. } = *answers;
    let names = Names { trace, frames };
    let total = oom.counters.allocated;
    let mut out = oom_verdict(oom);
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
    let _ = writeln!(out, "{}", oom_cause(oom, could_expand(trace)));
    if let Some(best) = answers.best_setting {
        let _ = writeln!(out, "{}", best_setting(best, &Advice::LIBRARY));
        if best.tried.outcome.fits() && !best.tried.setting.conf.is_empty() {
            let _ = writeln!(out, "  {}", paste(&best.tried.setting.conf));
        }
    }
    out
}
