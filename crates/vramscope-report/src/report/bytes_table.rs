//! The table of byte kinds: at one event, at their peaks and at the end.

use vramscope_analysis::{Peak, Summary, When};
use vramscope_basics::units::{bytes, count};

use crate::answers::Answers;
use crate::text::lines::DIM;
use crate::text::page::Page;

impl Page<'_> {
    pub(crate) fn bytes_table(&mut self, answers: &Answers<'_>, s: &Summary) {
        let at = |p: Peak| {
            p.moment.event().map_or("the start".to_owned(), |e| format!("event {}", count(e as u64)))
        };
        let here = match answers.at {
            Some(When::After(event)) => format!("after event {}", count(event as u64)),
            Some(When::End) => "at the end".to_owned(),
            None => "at the peak".to_owned(),
        };
        self.heading(&format!(
            "{:<12}{here:>16}{:>14}  {:<16}{:>14}",
            "Bytes", "own peak", "at", "at the end"
        ));
        let end = s.end;
        let has_end = end.segments > 0;
        let rows = [
            ("requested", s.counters.requested, s.peaks.requested, end.requested),
            ("allocated", s.counters.allocated, s.peaks.allocated, end.allocated),
            ("active", s.counters.active, s.peaks.active, end.active),
            ("reserved", s.counters.reserved, s.peaks.reserved, end.reserved),
        ];
        // Seen from outside, requests have the sizes of their blocks.
        let unknown = usize::from(s.quality.missing.seen_from_outside);
        // Formats of other tools may have no segments.
        let has_segments = s.peaks.reserved.bytes > 0 || s.peaks.allocated.bytes == 0;
        for (name, here, peak, end) in rows.into_iter().skip(unknown) {
            if name == "reserved" && !has_segments {
                self.line(format!("{name:<12}{DIM}    not in this recording{DIM:#}"));
                continue;
            }
            let end = if has_end { bytes(end) } else { "-".to_owned() };
            self.line(format!(
                "{name:<12}{:>16}{:>14}  {:<16}{end:>14}",
                bytes(here),
                bytes(peak.bytes),
                at(peak)
            ));
        }
        let used = match s.ooms.first() {
            Some(oom) => {
                format!("the driver had {} free at the out-of-memory failure", bytes(oom.device_free))
            }
            None if s.libraries.is_some() => return,
            None => "not in a snapshot".to_owned(),
        };
        self.line(format!("{:<12}{DIM}    {used}{DIM:#}", "device used"));
    }
}
