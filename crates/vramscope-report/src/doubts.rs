//! Why numbers may not be exact: the one place that words it, for every form of report and for the page.

use vramscope_analysis::{DeviceReplay, Divergence, Doubt, EndBlock, MemoryEvent, Quality, SkippedActions};
use vramscope_trace::Action;

use crate::advice::{Advice, dropped, sentence};
use vramscope_basics::units::{bytes, count, counted};

/// What is not exact, and why: a sentence each, none where everything is exact.
pub(crate) fn doubts(q: &Quality, advice: &Advice) -> Vec<String> {
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
            counted_with(q.size_mismatches, "block", "is", "are")
        ));
    }
    if q.lost_events > 0 {
        notes.push(lost_events(q.lost_events));
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
            "{}; reserved bytes are approximate.",
            segment_contradictions(q.segment_contradictions)
        ));
    }
    if q.reproduced == Some(false) {
        notes.push(format!(
            "The allocator's rules do not reproduce this recording; {} says where they part. The settings may have changed during the run.",
            advice.replay
        ));
    }
    if q.settings_assumed {
        notes.push(SETTINGS_ASSUMED.to_owned());
    }
    notes
}

/// Why the numbers of a replay may not be exact: a sentence each, none where all are exact. First for the settings asked
/// for, then what holds only for others. `overflowed` says that the recording itself tells of events that its ring buffer
/// dropped.
pub(crate) fn replay_doubts(
    replay: &DeviceReplay,
    overflowed: bool,
    advice: &Advice,
) -> (Vec<String>, Vec<String>) {
    let sentence = |&doubt: &Doubt| of_replay(doubt, replay, overflowed, advice);
    let of_others = replay.what_if_doubts.iter().filter(|doubt| !replay.doubts.contains(doubt));
    (replay.doubts.iter().map(sentence).collect(), of_others.map(sentence).collect())
}

/// Why what is said of a setting in a report may not be exact: a sentence each.
pub(crate) fn setting_doubts(doubts: &[Doubt], advice: &Advice) -> Vec<String> {
    let sentence = |&doubt: &Doubt| match doubt {
        Doubt::Diverges => format!(
            "The recorded settings do not reproduce the recording; {} says where they part.",
            advice.replay
        ),
        doubt => in_words(doubt, false, advice),
    };
    doubts.iter().map(sentence).collect()
}

/// One reason why numbers of a replay may not be exact, in a sentence.
fn of_replay(doubt: Doubt, d: &DeviceReplay, overflowed: bool, advice: &Advice) -> String {
    match doubt {
        Doubt::Diverges => divergence(d, advice),
        doubt => in_words(doubt, overflowed, advice),
    }
}

/// A reason in a sentence, where nothing more is known of it.
fn in_words(doubt: Doubt, overflowed: bool, advice: &Advice) -> String {
    let n = |n: usize, what: &str| counted(n as u64, what);
    match doubt {
        Doubt::Diverges => "The recorded settings do not reproduce the recording.".to_owned(),
        Doubt::SettingsAssumed => SETTINGS_ASSUMED.to_owned(),
        Doubt::Skipped(action) => skipped(action),
        Doubt::NoSegmentEvents => NO_SEGMENT_EVENTS.to_owned(),
        Doubt::Overflowed => {
            let dropped = dropped(overflowed);
            format!("{}; what happened before is not replayed.", sentence(dropped))
        }
        Doubt::Preexisting(blocks) => format!(
            "{} live before recording began. Where they would have lain under other settings is not known: they are asked for anew, in address order.",
            counted_with(blocks, "block", "was", "were")
        ),
        Doubt::OtherAllocator => {
            "The recording is of another allocator than PyTorch's, which has no such settings.".to_owned()
        }
        Doubt::InferredSizes(blocks) => {
            format!("The sizes of {} live before recording began are inferred.", n(blocks, "block"))
        }
        Doubt::Misplaced(blocks) => format!(
            "{} live before recording began have no room where they are said to lie, and are left out.",
            n(blocks, "block")
        ),
        Doubt::EndStateDisagreements(blocks) => format!(
            "The events and the end state disagree about {}; the events were followed.",
            n(blocks, "block")
        ),
        Doubt::GuessedLimit => {
            "The recording ran out at a limit on reserved bytes, which is taken for what was reserved then; it may have been somewhat higher.".to_owned()
        }
        Doubt::RoundedRequests => {
            "Of a request that failed only the rounded size is recorded, and these settings round otherwise.".to_owned()
        }
        Doubt::LostEvents(events) => lost_events(events),
        Doubt::SegmentContradictions(events) => format!("{}.", segment_contradictions(events)),
        Doubt::AssumedReleases(releases) => format!(
            "Who gave cached memory back is not recorded in {}: it is taken for the allocator where the request would have set a new record, else for the program (`empty_cache`). Stacks would tell.",
            n(releases, "case")
        ),
        Doubt::UnknownLimit => format!(
            "A limit is a part of the device, whose size is not known, so there is none here; what was collected as garbage is followed as recorded. Name the size with {}.",
            advice.capacity_alone
        ),
    }
}

/// Where the replay leaves the recording, in a sentence.
fn divergence(d: &DeviceReplay, advice: &Advice) -> String {
    let happened = |h: Option<MemoryEvent>| match h {
        None => "nothing".to_owned(),
        Some(h) => format!("{} of {} at {:#x}", h.action.name(), bytes(h.size), h.address),
    };
    let block = |b: Option<EndBlock>| match b {
        None => "no block".to_owned(),
        Some(b) => format!("a block of {} at {:#x}, {}", bytes(b.size), b.address, b.state.name()),
    };
    match d.divergence {
        None => String::new(),
        Some(Divergence::Event { event, recorded, replayed }) => format!(
            "The recorded settings do not reproduce the recording: at event {} there is {}, and the replay has {}. From there on all numbers are approximate. {}{}",
            count(event as u64),
            happened(recorded),
            happened(replayed),
            if is_cupys_choice(d, recorded, replayed) {
                CUPYS_CHOICE.to_owned()
            } else {
                format!(
                    "The settings may have changed during the run, or the release is another ({}).",
                    advice.release
                )
            },
            if d.lacks_growth {
                " Or segments were taken and the recording lacks these events: it has none (`skip_actions` leaves them out)."
            } else {
                ""
            }
        ),
        Some(Divergence::EndState { recorded, replayed }) => format!(
            "Every event is reproduced, but not the layout at the end: there is {}, and the replay has {}.",
            block(recorded),
            block(replayed)
        ),
    }
}

/// Whether the two serve the same request by CuPy's rules, from free blocks of the same size.
fn is_cupys_choice(d: &DeviceReplay, recorded: Option<MemoryEvent>, replayed: Option<MemoryEvent>) -> bool {
    let same = |(a, b): (MemoryEvent, MemoryEvent)| {
        a.action == Action::Alloc && b.action == a.action && a.size == b.size
    };
    d.release.is_none() && recorded.zip(replayed).is_some_and(same)
}

/// Where CuPy takes another block than the replay: since release 14 its pool orders free blocks by size, and then by the
/// address of the Python object that stands for each.
const CUPYS_CHOICE: &str = "Of free blocks of the same size CuPy takes the one whose object lies lowest in Python's memory, which is not recorded, and the replay the one at the lowest address.";

/// Where no segment event was recorded.
const NO_SEGMENT_EVENTS: &str = "No segment event was recorded: every segment was there before recording began, or such events were left out (`skip_actions`). Reserved bytes are those of the segments at the end.";

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
fn skipped(action: Action) -> String {
    match action {
        Action::Alloc => "Without `alloc`, when memory was allocated is not known: it is taken for allocated since the beginning, or since its address was last freed, so bytes in use are at most what is shown.",
        Action::FreeRequested => "Without `free_requested`, memory counts as allocated until it was available again, also while only another stream still used it.",
        Action::FreeCompleted => "Without `free_completed`, memory counts as available where its free was requested or its address was used again, also while another stream still used it.",
        Action::SegmentAlloc | Action::SegmentMap => "Which segments were taken when is not known: reserved bytes are those of segments that are there at the end or were seen to be freed.",
        _ => "Which segments were given back when is not known: reserved bytes lack those that are not there at the end.",
    }
    .to_owned()
}

/// Where the file names no settings.
const SETTINGS_ASSUMED: &str = "The file names no allocator settings; PyTorch's defaults were assumed.";

/// Events that must have happened and are not in the recording, in a sentence.
fn lost_events(events: usize) -> String {
    let are_missing = counted_with(events, "event", "is missing", "are missing");
    format!("{are_missing}: an address was used again or freed twice.")
}

/// Segment events that cannot all be true, as a sentence begins.
fn segment_contradictions(events: usize) -> String {
    let contradict = counted_with(events, "segment event", "contradicts", "contradict");
    format!("{contradict} each other or the end state")
}

/// `1 event is missing`, `2 events are missing`: a number of things, and the verb that goes with it.
fn counted_with(n: usize, what: &str, one: &str, many: &str) -> String {
    format!("{} {}", counted(n as u64, what), if n == 1 { one } else { many })
}
