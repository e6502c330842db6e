//! The section about idle memory: allocations that are live while nothing uses them.

use serde::Serialize;
use vramscope_analysis::{HolderKey, IdleFinding, IdleKind, IdleMemory, Summary};
use vramscope_basics::units::{bytes, count, counted, duration};
use vramscope_trace::Category;

use crate::fit::fit;
use crate::json::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::{Names, category};
pub use crate::report::out_of_memory::causes::{
    MainCause, changes_after_oom, nearest, oom_advice, oom_cause, oom_verdict, recorded_conf,
};
use crate::shown::Shown;
use crate::text::lines::BOLD;
use crate::text::page::Page;

/// Allocations that are live while nothing uses them.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Idle"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportIdle"))]
pub(crate) struct IdleJson {
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
pub(crate) struct IdleFindingJson {
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
pub(crate) struct IdleIntervalJson {
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
    pub(crate) fn idle(&self, idle: &IdleMemory) -> IdleJson {
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

impl Page<'_> {
    pub(crate) fn idle(&mut self, s: &Summary) {
        let Some(idle) = &s.idle else { return };
        match idle.findings.len() {
            0 => self.heading("No idle memory raises the peak"),
            found => self.heading(&format!("Idle memory: {}", counted(found as u64, "finding"))),
        }
        for text in idle_memory(idle) {
            self.words(2, &text);
        }
        let between = idle.findings.partition_point(|f| f.kind != IdleKind::BetweenUses);
        let (mendable, between) = idle.findings.split_at(between);
        self.idle_rows(idle, mendable);
        if !between.is_empty() {
            self.words(2, "Idle between two uses, as candidates for offload or recomputation:");
            self.idle_rows(idle, between);
        }
        if let Some(text) = idle_left_out(idle) {
            self.words(2, &text);
        }
    }

    fn idle_rows(&mut self, idle: &IdleMemory, findings: &[IdleFinding]) {
        for finding in findings.iter().take(self.options.top) {
            let line = fit(&idle_line(&self.names, finding), self.options.width.saturating_sub(16));
            self.line(format!("  {:>11}  {BOLD}{line}{BOLD:#}", bytes(finding.bytes)));
            let text = idle_finding(&self.names, idle, finding);
            self.words(15, &text);
            self.full_stack(finding.stack);
        }
        let more = findings.len().saturating_sub(self.options.top);
        if more > 0 {
            self.words(2, &format!("... {} more", count(more as u64)));
        }
    }
}

/// The peak without any idle memory, and the limits of this knowledge: one sentence each.
pub fn idle_memory(idle: &IdleMemory) -> Vec<String> {
    let [bound, peak] = [idle.lower_bound, idle.peak.bytes].map(bytes);
    let mut told = vec![match idle.peak.bytes.saturating_sub(idle.lower_bound) {
        0 => format!("At the peak of {peak}, every allocation is between its first and its last use."),
        less => {
            let bound = if bound == peak {
                format!("{} less than {peak}", bytes(less))
            } else {
                format!("{bound} instead of {peak}")
            };
            format!(
                "If every allocation lived from its first to its last use, the peak of allocated bytes would be {bound}."
            )
        }
    }];
    if idle.unknown_launches > 0 {
        told.push(format!(
            "The parameters of {} of all {} launches are unknown. These launches may have used this memory.",
            count(idle.unknown_launches),
            count(idle.launches)
        ));
    }
    told
}

/// The findings that [`IdleMemory`] does not list, in a sentence; `None` if it lists all.
pub fn idle_left_out(idle: &IdleMemory) -> Option<String> {
    (idle.left_out > 0).then(|| {
        format!(
            "Left out: {} with {} of idle memory, without which the peak would hardly be lower.",
            counted(idle.left_out as u64, "finding"),
            bytes(idle.left_out_bytes)
        )
    })
}

/// The line, the modules and the category of idle memory.
pub fn idle_line(names: &Names<'_>, finding: &IdleFinding) -> Shown {
    let mut text = names.key(&finding.line).to_string();
    if let Some(path) = &finding.module {
        let module = names.key(&HolderKey::Layer(Some(path.as_str().into())));
        text += &format!(" in {module}");
    }
    if let Some(of) = finding.category.filter(|of| of.is_told() && *of != Category::Temporary) {
        text += &format!(", {}", category(of));
    }
    Shown::joined(&text)
}

/// When memory was idle, and the peak without that, in one clause.
pub fn idle_finding(names: &Names<'_>, idle: &IdleMemory, finding: &IdleFinding) -> String {
    let one = finding.allocations.len() == 1;
    let up_to = if one { "" } else { "up to " };
    let interval = {
        let events = counted(finding.longest.events() as u64, "event");
        let time = finding.longest.duration_us(names.trace, idle.device);
        up_to.to_owned() + &time.map_or(events.clone(), |us| format!("{events} ({})", duration(us)))
    };
    let (it_was, its, it) = if one { ("it was", "its", "it") } else { ("they were", "their", "them") };
    let used = if finding.is_used_once { "used once," } else { "last used" };
    let (idles, mended) = match finding.kind {
        IdleKind::FreedLate => (format!("{used} {interval} before {it_was} freed"), "freed then".to_owned()),
        IdleKind::NotFreed => {
            (format!("{used} {interval} before the recording ended, and not freed"), "freed then".to_owned())
        }
        IdleKind::AllocatedEarly => {
            (format!("allocated {interval} before {it_was} used"), "allocated then".to_owned())
        }
        IdleKind::NeverUsed => (format!("never used in {interval}"), format!("without {it}")),
        IdleKind::BetweenUses => (
            format!("not used for {interval} between two of {its} uses"),
            "offloaded or recomputed".to_owned(),
        ),
    };
    let many = if one {
        String::new()
    } else {
        format!("{}, ", counted(finding.allocations.len() as u64, "allocation"))
    };
    let [remaining, peak, at_peak] =
        [finding.remaining_peak, idle.peak.bytes, finding.bytes_at_peak].map(bytes);
    if finding.remaining_peak >= idle.peak.bytes {
        format!(
            "{many}{idles}; {at_peak} is idle at the peak, but another moment has the same peak without it"
        )
    } else if remaining == peak {
        format!("{many}{idles}; {mended}, the peak would be {} lower", bytes(idle.saved(finding)))
    } else {
        format!("{many}{idles}; {mended}, the peak would be {remaining} instead of {peak}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vramscope_analysis::{Frames, Options, Summary};
    use vramscope_trace::formats::{self, Recording};
    use vramscope_trace::{Accesses, AllocationAccesses};

    use crate::answers::Answers;
    use crate::report::report;
    use crate::text::TextOptions;
    use crate::{Advice, ReportJson};

    const MIB: u64 = 1 << 20;

    /// A block of 40 MiB that is used when it is made, one of 20 MiB that is used before and after the peak, one of 10 MiB without
    /// uses, and one of 30 MiB at the peak. A block of 1 KiB is used late.
    fn recording() -> Recording {
        let event = |action: &str, address: u64, size: u64, line: u32| {
            let frames =
                [serde_json::json!({"name": "forward", "filename": "/home/user/train.py", "line": line})];
            serde_json::json!({"action": action, "addr": address << 30, "size": size, "stream": 0, "frames": frames})
        };
        let (alloc, free) = ("alloc", "free_completed");
        let events = [
            event(alloc, 1, 40 * MIB, 10),
            event(alloc, 2, 20 * MIB, 20),
            event(alloc, 3, 10 * MIB, 30),
            event(alloc, 5, 1024, 50),
            event(alloc, 4, 30 * MIB, 40),
            event(free, 4, 30 * MIB, 40),
            event(free, 5, 1024, 50),
            event(free, 3, 10 * MIB, 30),
            event(free, 2, 20 * MIB, 20),
            event(free, 1, 40 * MIB, 10),
        ];
        let snapshot = serde_json::json!({"segments": [], "device_traces": [events]}).to_string();
        let mut recording = formats::read(snapshot.as_bytes()).unwrap();
        let uses = |allocation: usize, moments: &[usize], longest_idle: (usize, usize)| AllocationAccesses {
            device: 0,
            allocation,
            first: moments[0],
            last: moments[moments.len() - 1],
            count: moments.len() as u64,
            longest_idle,
        };
        let allocations = vec![
            uses(0, &[1], (1, 1)),
            uses(1, &[2, 3, 8], (3, 8)),
            uses(3, &[6], (6, 6)),
            uses(4, &[5], (5, 5)),
        ];
        Arc::get_mut(&mut recording.trace).unwrap().accesses =
            Some(Accesses { allocations, launches: 1200, unknown_launches: 12 });
        recording
    }

    /// The section in the report, with some number of rows.
    fn section(top: usize) -> String {
        let recording = recording();
        let frames = Frames::of(&recording.trace);
        let devices = vec![Summary::of(&recording.trace, 0, &frames, &Options::default())];
        let (by, at, advice) = (None, None, Advice::default());
        let answers = Answers {
            file: "f",
            recording: &recording,
            frames: &frames,
            devices,
            by,
            at,
            top: Some(top),
            advice,
        };
        let text = report(&answers, TextOptions { width: 100, top, full_stacks: false });
        let text = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        let json = serde_json::to_value(ReportJson::new(&answers)).unwrap();
        let idle = &json["devices"][0]["idle"];
        let shown = idle["findings"].as_array().unwrap().len();
        assert_eq!((shown, &idle["more_findings"]), (top.min(3), &(3 - top.min(3)).into()));
        let begin = text.find("Idle memory").unwrap();
        let end = text[begin..].find("\n\n").map_or(text.len(), |end| begin + end);
        text[begin..end].to_owned()
    }

    #[test]
    fn idle_memory_is_reported_with_the_peak_without_it() {
        assert_eq!(
            section(10),
            "Idle memory: 3 findings
  If every allocation lived from its first to its last use, the peak of allocated bytes would be
  50.00 MiB instead of 100.00 MiB.
  The parameters of 12 of all 1,200 launches are unknown. These launches may have used this memory.
    40.00 MiB  train.py:10 forward, activation
               used once, 8 events before it was freed; freed then, the peak would be 60.00 MiB
               instead of 100.00 MiB
    10.00 MiB  train.py:30 forward, activation
               never used in 4 events; without it, the peak would be 90.00 MiB instead of 100.00 MiB
  Idle between two uses, as candidates for offload or recomputation:
    20.00 MiB  train.py:20 forward, activation
               not used for 5 events between two of its uses; offloaded or recomputed, the peak
               would be 80.00 MiB instead of 100.00 MiB
  Left out: 1 finding with 1.00 KiB of idle memory, without which the peak would hardly be lower."
        );
        assert!(section(1).contains("train.py:10 forward, activation\n"));
        assert!(section(1).contains("  ... 1 more\n") && !section(1).contains("train.py:30"));
    }
}
