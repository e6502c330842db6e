//! How far numbers can be trusted, in words.

use vramscope_analysis::Quality;

use crate::units::{bytes, count, counted};

/// What is not exact, and why: a sentence each, none where everything is exact.
pub fn doubts(q: &Quality) -> Vec<String> {
    let n = |n: usize, what: &str| counted(n as u64, what);
    let mut notes = Vec::new();
    if q.inferred_sizes > 0 {
        notes.push(format!(
            "Allocated and active bytes are approximate: the sizes of {}, as a rule live before recording, are inferred from what was asked for; each may be up to 1 MiB larger.",
            n(q.inferred_sizes, "block")
        ));
    }
    if q.size_mismatches > 0 {
        notes.push(format!(
            "{} not of the size the allocator's rules give; the end state was believed. The settings may have changed during the run.",
            were(q.size_mismatches, "block")
        ));
    }
    if q.lost_events > 0 {
        notes.push(format!(
            "{} missing: an address was used again or freed twice.",
            were(q.lost_events, "event")
        ));
    }
    if q.end_state_disagreements > 0 {
        notes.push(format!(
            "The trace and the end state disagree about {} ({}); peaks follow the trace, the end its own blocks. The two are copied one after the other while the program runs.",
            n(q.end_state_disagreements, "block"),
            bytes(q.end_state_disagreement_bytes)
        ));
    }
    if q.segment_contradictions > 0 {
        notes.push(format!(
            "{} each other or the end state; reserved bytes are approximate.",
            if q.segment_contradictions == 1 {
                "1 segment event contradicts".to_owned()
            } else {
                format!("{} segment events contradict", count(q.segment_contradictions as u64))
            }
        ));
    }
    if q.reproduced == Some(false) {
        notes.push(
            "The allocator's rules do not reproduce this recording; `vramscope replay` says where they part. The settings may have changed during the run.".to_owned(),
        );
    }
    if q.settings_assumed {
        notes.push("The file names no allocator settings; PyTorch's defaults were assumed.".to_owned());
    }
    notes
}

fn were(n: usize, what: &str) -> String {
    format!("{} {}", counted(n as u64, what), if n == 1 { "is" } else { "are" })
}
