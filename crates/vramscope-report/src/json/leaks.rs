//! JSON of lines that are suspected of a leak.

use serde::Serialize;
use vramscope_analysis::LeakSuspect;

use super::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::Names;

/// A line whose live allocations keep growing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Leak"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Leak"))]
pub(super) struct LeakJson {
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
    pub(super) fn leak(&self, l: &LeakSuspect) -> LeakJson {
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
        }
    }
}
