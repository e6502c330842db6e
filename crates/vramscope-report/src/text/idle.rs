//! The section about idle memory: allocations that are live while nothing uses them.

use vramscope_analysis::{IdleFinding, IdleKind, IdleMemory, Summary};

use super::page::{BOLD, Page};
use crate::findings::{idle_finding, idle_left_out, idle_line, idle_memory};
use crate::fit::fit;
use vramscope_basics::units::{bytes, count, counted};

impl Page<'_> {
    pub(super) fn idle(&mut self, s: &Summary) {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vramscope_analysis::{Frames, Options, Summary};
    use vramscope_trace::formats::{self, Recording};
    use vramscope_trace::{Accesses, AllocationAccesses};

    use crate::answers::Answers;
    use crate::text::{TextOptions, report};
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
        let answers = Answers { file: "f", recording: &recording, frames: &frames, devices, by, at, advice };
        let text = report(&answers, TextOptions { width: 100, top, full_stacks: false });
        let text = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        let json = serde_json::to_value(ReportJson::new(&answers, Some(top))).unwrap();
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
