//! JSON of idle memory: allocations that are live while nothing uses them.

use serde::Serialize;
use vramscope_analysis::{HolderKey, IdleFinding, IdleMemory};
use vramscope_trace::Category;

use super::stacks::{Builder, FrameJson, StackJson, is_zero};

/// Allocations that are live while nothing uses them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Idle"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportIdle"))]
pub(super) struct IdleJson {
    /// Kernel launches, library calls and copies in the recording.
    launches: u64,
    /// The launches whose parameters are unknown; they may have used any memory.
    unknown_launches: u64,
    /// The peak of allocated bytes if every allocation lived from its first to its last use.
    lower_bound_bytes: u64,
    /// First those that need no extra work when mended, then those `between_uses`; each by the fall of the peak.
    findings: Vec<IdleFindingJson>,
    /// Findings beyond those in `findings`, because of a limit on rows.
    more_findings: usize,
    /// Further findings, which hardly lower the peak, and their bytes.
    left_out: usize,
    left_out_bytes: u64,
}

/// One kind of idle memory at one line, in modules of one name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IdleFinding"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportIdleFinding"))]
pub(super) struct IdleFindingJson {
    /// `freed_late`, `not_freed`, `allocated_early`, `never_used` or `between_uses`.
    kind: &'static str,
    /// The frame of the user's code; null without a stack.
    line: Option<FrameJson>,
    /// Path of the modules that allocated, as `h.*.mlp` if their numbers differ; null if no module did.
    module: Option<String>,
    /// The category of all these allocations; null if they differ. Allocations without a stack have one finding for each category.
    category: Option<&'static str>,
    /// The stack of the allocation with the longest interval, innermost frame first.
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    #[cfg_attr(test, ts(optional, as = "Option<_>"))]
    frames_left_out: usize,
    /// Number of allocations.
    allocations: usize,
    /// Whether each of them was used exactly once.
    used_once: bool,
    /// The most bytes of them that are idle after one event.
    bytes: u64,
    /// Bytes of them that are idle at the peak of allocated bytes.
    bytes_at_peak: u64,
    /// Idle bytes, summed over events.
    byte_events: u64,
    /// The peak of allocated bytes without these intervals.
    remaining_peak_allocated_bytes: u64,
    longest: IdleIntervalJson,
}

/// The idle interval with the most byte-events.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IdleInterval"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportIdleInterval"))]
pub(super) struct IdleIntervalJson {
    /// Event right before the interval; null if it begins before the first event.
    from_event: Option<usize>,
    /// Last event of the interval; null if it ends before the first event.
    to_event: Option<usize>,
    /// Number of events in the interval.
    events: usize,
    /// Null if events have no times.
    duration_us: Option<i64>,
}

impl Builder<'_> {
    pub(super) fn idle(&self, idle: &IdleMemory) -> IdleJson {
        let shown = idle.findings.len().min(self.top.unwrap_or(usize::MAX));
        IdleJson {
            launches: idle.launches,
            unknown_launches: idle.unknown_launches,
            lower_bound_bytes: idle.lower_bound,
            findings: idle.findings[..shown].iter().map(|finding| self.idle_finding(idle, finding)).collect(),
            more_findings: idle.findings.len() - shown,
            left_out: idle.left_out,
            left_out_bytes: idle.left_out_bytes,
        }
    }

    fn idle_finding(&self, idle: &IdleMemory, f: &IdleFinding) -> IdleFindingJson {
        let StackJson { frames: stack, left_out } = self.stack(f.stack);
        IdleFindingJson {
            kind: f.kind.name(),
            line: match f.line {
                HolderKey::Line(frame) => Some(self.frame(frame)),
                _ => None,
            },
            module: f.module.clone(),
            category: f.category.map(Category::name),
            stack,
            frames_left_out: left_out,
            allocations: f.allocations.len(),
            used_once: f.is_used_once,
            bytes: f.bytes,
            bytes_at_peak: f.bytes_at_peak,
            byte_events: f.byte_events.try_into().unwrap_or(u64::MAX),
            remaining_peak_allocated_bytes: f.remaining_peak,
            longest: IdleIntervalJson {
                from_event: f.longest.from.event(),
                to_event: f.longest.to.event(),
                events: f.longest.events(),
                duration_us: f.longest.duration_us(self.names.trace, idle.device),
            },
        }
    }
}
