//! How far numbers can be trusted, in words.

use vramscope_analysis::{Quality, SkippedActions};
use vramscope_trace::Action;

use crate::advice::Advice;
use crate::units::{bytes, count, counted};

/// What is not exact, and why: a sentence each, none where everything is exact.
pub fn doubts(q: &Quality, advice: &Advice) -> Vec<String> {
    let n = |n: usize, what: &str| counted(n as u64, what);
    let mut notes = Vec::new();
    if !q.skipped.is_empty() {
        notes.push(not_recorded(q.skipped));
        notes.extend(q.skipped.iter().map(skipped));
    }
    if q.no_segment_events {
        notes.push(NO_SEGMENT_EVENTS.to_owned());
    }
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
        notes.push(format!(
            "The allocator's rules do not reproduce this recording; {} says where they part. The settings may have changed during the run.",
            advice.replay
        ));
    }
    if q.settings_assumed {
        notes.push("The file names no allocator settings; PyTorch's defaults were assumed.".to_owned());
    }
    notes
}

/// Where no segment event was recorded.
pub(crate) const NO_SEGMENT_EVENTS: &str = "No segment event was recorded: every segment was there before recording began, or such events were left out (`skip_actions`). Reserved bytes are those of the segments at the end.";

/// Which kinds of events were left out, in a sentence.
pub(crate) fn not_recorded(actions: SkippedActions) -> String {
    let names: Vec<&str> = actions.iter().map(Action::name).collect();
    let names = match names.split_last() {
        Some((last, [])) => format!("`{last}`"),
        Some((last, others)) => format!("`{}` and `{last}`", others.join("`, `")),
        None => return String::new(),
    };
    format!(
        "Events of the kind {names} were not recorded (`skip_actions` leaves them out), though some must have happened."
    )
}

/// What is not known for want of events of this kind.
pub(crate) fn skipped(action: Action) -> String {
    match action {
        Action::Alloc => "Without `alloc`, when memory was allocated is not known: it is taken for allocated since the beginning, or since its address was last freed, so bytes in use are at most what is shown.",
        Action::FreeRequested => "Without `free_requested`, memory counts as allocated until it was available again, also while only another stream still used it.",
        Action::FreeCompleted => "Without `free_completed`, memory counts as available where its free was requested or its address was used again, also while another stream still used it.",
        Action::SegmentAlloc | Action::SegmentMap => "Which segments were taken when is not known: reserved bytes are those of segments that are there at the end or were seen to be freed.",
        _ => "Which segments were given back when is not known: reserved bytes lack those that are not there at the end.",
    }
    .to_owned()
}

fn were(n: usize, what: &str) -> String {
    format!("{} {}", counted(n as u64, what), if n == 1 { "is" } else { "are" })
}
