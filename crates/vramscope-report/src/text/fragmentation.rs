//! The section about fragmentation: reserved memory that is not in use.

use vramscope_analysis::{Fragmentation, Summary};

use super::page::Page;
use vramscope_basics::units::{bytes, counted};

impl Page<'_> {
    pub(super) fn fragmentation(&mut self, s: &Summary) {
        let at_end = s.fragmentation_at_end.as_ref().filter(|e| s.moment != e.moment);
        let here = if at_end.is_some() { "at this event" } else { "at the end" };
        let moments = [(here, s.fragmentation.as_ref()), ("at the end", at_end)];
        if moments.iter().all(|(_, f)| f.is_none()) {
            return;
        }
        self.heading("Fragmentation");
        for (when, f) in moments {
            let Some(f) = f else { continue };
            let rounding = match s.quality.seen_from_outside {
                true => String::new(),
                false => format!("{} lost to rounding inside blocks; ", bytes(f.internal)),
            };
            let text = format!(
                "{when}: {rounding}{} reserved and free, {} of it in whole segments, which the allocator can release when needed. {}",
                bytes(f.external),
                bytes(f.whole_segments),
                usable_words(f)
            );
            self.words(2, &text);
        }
    }
}

/// The part of the free memory that one more request could use, in a sentence.
fn usable_words(f: &Fragmentation) -> String {
    let asked = bytes(f.request.bytes);
    if f.external == 0 {
        return String::new();
    }
    format!(
        "One more request of {asked}, the largest of the run, could use {} of it but not the other {}; the largest of {} is {}.",
        bytes(f.usable),
        bytes(f.unusable_bytes()),
        counted(f.free_blocks as u64, "free block"),
        f.largest.map(|b| bytes(b.size)).unwrap_or_default()
    )
}
