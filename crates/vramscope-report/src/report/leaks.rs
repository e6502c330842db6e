//! The section about lines that are suspected of a leak, with evidence.

use serde::Serialize;
use vramscope_analysis::{LeakSuspect, Summary, WINDOWS};
use vramscope_basics::units::{bytes, count, counted};

use crate::fit::fit;
use crate::json::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::Names;
use crate::report::holders::has_stacks;
use crate::text::lines::BOLD;
use crate::text::page::Page;

/// A line whose live allocations keep growing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Leak"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Leak"))]
pub(crate) struct LeakJson {
    line: FrameJson,
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
    stacks: usize,
    /// Fewest live allocations from the start of each tenth of the run until its end.
    floor: Vec<u64>,
    allocations: u64,
    kept: u64,
    kept_bytes: u64,
    /// Bytes of the retained allocations that had been allocated by the end of each tenth of the run.
    kept_bytes_by_then: Vec<u64>,
    /// Bytes of the retained allocations that one step allocated: the median of all steps. Null if no steps are known.
    kept_bytes_per_step: Option<u64>,
    /// Number of repetitions in which it grew: steps, epochs, requests or calls.
    repetitions: usize,
    /// Bytes that one repetition retains: the mean.
    kept_bytes_per_repetition: u64,
    /// `shown`, `likely` or `possible`.
    certainty: &'static str,
}

/// Suspected lines, as in `vramscope report --json`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct LeaksJson(Vec<LeakJson>);

impl LeaksJson {
    /// The first `top` suspects of one trace, or all of them.
    pub fn new(names: Names<'_>, leaks: &[LeakSuspect], top: Option<usize>) -> Self {
        let builder = Builder::new(names, top);
        Self(leaks.iter().take(top.unwrap_or(usize::MAX)).map(|leak| builder.leak(leak)).collect())
    }
}

impl Builder<'_> {
    pub(crate) fn leak(&self, l: &LeakSuspect) -> LeakJson {
        let StackJson { frames: stack, left_out } = self.stack(Some(l.stack));
        LeakJson {
            line: self.frame(l.line),
            stack,
            frames_left_out: left_out,
            stacks: l.stacks.len(),
            floor: l.floor.to_vec(),
            allocations: l.allocations,
            kept: l.kept,
            kept_bytes: l.kept_bytes,
            kept_bytes_by_then: l.kept_by_then.to_vec(),
            kept_bytes_per_step: l.kept_per_step,
            repetitions: l.repetitions,
            kept_bytes_per_repetition: l.kept_per_repetition,
            certainty: l.certainty.name(),
        }
    }
}

impl Page<'_> {
    pub(crate) fn leaks(&mut self, s: &Summary) {
        if s.events == 0 || !has_stacks(s) {
            return;
        }
        if s.leaks.is_empty() {
            self.heading("No leak suspects");
            return;
        }
        self.heading(&format!("Leak suspects: {}", counted(s.leaks.len() as u64, "line")));
        for leak in s.leaks.iter().take(self.options.top) {
            self.leak(leak);
        }
        let more = s.leaks.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }

    pub(crate) fn leak(&mut self, leak: &LeakSuspect) {
        let line = fit(&self.names.frame(leak.line), self.options.width.saturating_sub(16));
        self.line(format!("  {:>11}  {BOLD}{line}{BOLD:#}", bytes(leak.kept_bytes)));
        let floor: Vec<String> = leak.floor.iter().map(|n| n.to_string()).collect();
        let stacks =
            if leak.stacks.len() > 1 { format!(" from {} stacks", leak.stacks.len()) } else { String::new() };
        let text = format!(
            "retained {} of {} blocks{stacks}; fewest live from each tenth of the run to its end: {}",
            count(leak.kept),
            count(leak.allocations),
            floor.join(" ")
        );
        self.words(15, &text);
        let half = leak.kept_by_then[WINDOWS / 2 - 1];
        let text =
            format!("{} in the middle of the run and {} at its end", bytes(half), bytes(leak.kept_bytes));
        self.words(15, &text);
        self.full_stack(Some(leak.stack));
    }
}
