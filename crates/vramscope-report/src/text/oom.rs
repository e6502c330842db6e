//! Why a request failed.

use vramscope_analysis::OutOfMemory;

use super::page::Page;
use crate::names::{kind, unusable};
use crate::units::{bytes, count, counted, duration};

impl Page<'_> {
    /// Why a request failed; `start` is when the recording began. Free pieces can still be made to join where
    /// segments were not expandable.
    pub(super) fn oom(&mut self, start: Option<i64>, oom: &OutOfMemory, could_expand: bool) {
        let time = match (oom.time_us, start) {
            (Some(t), Some(start)) => format!(", {} after the first", duration(t.saturating_sub(start))),
            _ => String::new(),
        };
        self.heading(&format!("Out of memory at event {}{time}", count(oom.event as u64)));
        let f = &oom.fragmentation;
        self.words(
            2,
            &format!(
                "asked for {} on the {}",
                bytes(oom.request.bytes),
                self.names.stream(oom.request.stream)
            ),
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
            self.words(4, &format!("{} in free blocks that could have served it", bytes(f.usable)));
        }
        for u in &f.unusable {
            let text = format!(
                "{} unusable, in {} {}; the largest is {} in the {} on the {}",
                bytes(u.bytes),
                counted(u.blocks as u64, "free block"),
                unusable(u.why),
                bytes(u.largest.size),
                kind(u.largest.kind),
                self.names.stream(u.largest.stream)
            );
            self.words(4, &text);
        }
        if oom.at_limit {
            let text = "The device had room for it: a limit on reserved bytes stood in the way, as `per_process_memory_fraction` sets one.";
            self.words(2, text);
        } else if oom.enough_in_total() {
            let help = if could_expand {
                "Pieces of fewer sizes, or `expandable_segments:True`, which lets free pieces join, often help."
            } else {
                "Pieces of fewer sizes often help."
            };
            let text = format!(
                "Free and unused together are {}, more than was asked for: it failed for fragmentation, not for size. {help}",
                bytes(oom.device_free.saturating_add(f.external))
            );
            self.words(2, &text);
        } else {
            let text = format!(
                "Even with every unused byte in one piece, {} would have been missing: it failed for size.",
                bytes(oom.missing())
            );
            self.words(2, &text);
        }
        if !oom.holders.is_empty() {
            self.words(2, &format!("what held the {} in use:", bytes(oom.counters.allocated)));
            self.holder_rows(&oom.holders, oom.counters.allocated, self.options.top.min(5));
        }
    }
}
