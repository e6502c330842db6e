//! The section about a failed request.

use vramscope_analysis::{OomCauseKind, OomExplanation};

use super::page::Page;
use crate::findings::{self, oom_cause, oom_verdict, unusable_blocks};
use crate::names::stream;
use vramscope_basics::units::{bytes, count, duration};

/// Limit on the lines that are listed for pinning free memory.
const MOST_PINS: usize = 3;

impl Page<'_> {
    /// Describes a failed request. `start` is the first time of the recording in microseconds, `conf` the settings at the failure.
    pub(super) fn oom(&mut self, start: Option<i64>, oom: &OomExplanation, conf: &str) {
        let time = match (oom.time_us, start) {
            (Some(t), Some(start)) => format!(", {} after the first", duration(t.saturating_sub(start))),
            _ => String::new(),
        };
        self.heading(&format!("Out of memory at event {}{time}", count(oom.event as u64)));
        let f = &oom.fragmentation;
        self.words(
            2,
            &format!("requested {} on the {}", bytes(oom.request.bytes), stream(oom.request.stream)),
        );
        if let Some(line) = oom.stack.and_then(|st| self.names.frames.own_frame(self.names.trace, st)) {
            let line = self.names.frame(line);
            self.words(2, &format!("in {line}"));
        }
        self.full_stack(oom.stack);
        self.words(2, &format!("{} was free on the device", bytes(oom.device_free)));
        self.words(
            2,
            &format!(
                "{} was reserved: {} in use and {} unused",
                bytes(oom.counters.reserved),
                bytes(oom.counters.active),
                bytes(f.external)
            ),
        );
        if f.usable > 0 {
            let pool = oom.causes.get(OomCauseKind::OtherPool).filter(|cause| cause.bytes >= f.usable);
            let owner = pool.map_or("", |_| ", of a private pool that the recording does not name");
            self.words(4, &format!("{} in free blocks that fit{owner}", bytes(f.usable)));
        }
        for u in &f.unusable {
            self.words(4, &unusable_blocks(u));
        }
        self.words(2, &oom_verdict(&self.names, conf, oom));
        self.words(2, &oom_cause(&self.names, conf, oom));
        if !oom.pins.lines.is_empty() {
            self.words(2, &findings::pinned(&oom.pins));
            for pin in oom.pins.lines.iter().take(self.options.top.min(MOST_PINS)) {
                self.words(4, &findings::pin(&self.names, pin));
            }
        }
        if !oom.holders.is_empty() {
            self.words(2, &format!("holders of the {} allocated:", bytes(oom.counters.allocated)));
            self.holder_rows(&oom.holders, oom.counters.allocated, self.options.top.min(5));
        }
    }
}
