//! Sentences about the limitations of numbers, for all report formats and the page.

use vramscope_analysis::{
    DeviceReplay, Divergence, EndBlock, MemoryEvent, Quality, ReplayLimitation, SkippedActions,
};
use vramscope_trace::{Action, Trace};

use crate::advice::{Advice, dropped, sentence};
use crate::shown::Shown;
use vramscope_basics::units::{bytes, count, counted};

/// The limitations of a recording's numbers, one sentence each; empty if all are exact.
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
            "Allocated and active bytes are approximate: the sizes of {}, most of them live before recording began, are inferred from the requested sizes; each may be up to 1 MiB larger.",
            n(q.inferred_sizes, "block")
        ));
    }
    if q.size_mismatches > 0 {
        notes.push(format!(
            "{} not of the size that the allocator's rules give; the sizes in the end state are used. The settings may have changed during the run.",
            counted_with(q.size_mismatches, "block", "is", "are")
        ));
    }
    if q.lost_events > 0 {
        notes.push(lost_events(q.lost_events));
    }
    if q.end_state_disagreements > 0 {
        notes.push(format!(
            "The trace and the end state disagree about {} ({}); peaks follow the trace, numbers at the end follow the end state. PyTorch copies one after the other while the program runs.",
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
    if q.size_contradictions > 0 {
        notes.push(format!(
            "{} other sizes in another place of the recording: the file was changed.",
            counted_with(q.size_contradictions, "size", "has", "have")
        ));
    }
    if q.damaged {
        notes.push("The file is damaged, and events may be missing there: peaks may have been higher, and memory whose free is missing counts as live.".to_owned());
    }
    if q.ends_early {
        notes
            .push("The recording ends before the program did: a later peak may have been higher.".to_owned());
    }
    if q.reproduced == Some(false) {
        notes.push(format!(
            "The allocator's rules do not reproduce this recording; {} shows the first difference. The settings may have changed during the run.",
            advice.replay
        ));
    }
    if q.older_allocations > 0 {
        notes.push(format!(
            "The log begins with {} older than the log, with their times and stacks. Memory that was freed before the log began is not in it.",
            counted_with(q.older_allocations, "allocation", "that is", "that are")
        ));
    }
    if q.attached {
        notes.push(ATTACHED.to_owned());
    }
    if let Some(least) = q.stacks_from {
        notes.push(format!("Only allocations of at least {} have stacks.", bytes(least)));
    }
    if q.seen_from_outside {
        notes.push(SEEN_FROM_OUTSIDE.to_owned());
    }
    if q.settings_assumed {
        notes.push(SETTINGS_ASSUMED.to_owned());
    }
    notes
}

/// The limitations of a replay's numbers, one sentence each; empty if all are exact. The first list is for the requested settings,
/// the second for other settings only. `overflowed` if the recording states that its ring buffer dropped events.
pub(crate) fn replay_doubts(
    replay: &DeviceReplay,
    overflowed: bool,
    advice: &Advice,
) -> (Vec<String>, Vec<String>) {
    let sentence = |&doubt: &ReplayLimitation| of_replay(doubt, replay, overflowed, advice);
    let of_others = replay.what_if_limitations.iter().filter(|doubt| !replay.limitations.contains(doubt));
    (replay.limitations.iter().map(sentence).collect(), of_others.map(sentence).collect())
}

/// The limitations of a setting's effect in a report, one sentence each.
pub(crate) fn setting_doubts(doubts: &[ReplayLimitation], advice: &Advice) -> Vec<String> {
    let sentence = |&doubt: &ReplayLimitation| match doubt {
        ReplayLimitation::Diverges => format!(
            "The recorded settings do not reproduce the recording; {} shows the first difference.",
            advice.replay
        ),
        doubt => in_words(doubt, false, advice),
    };
    doubts.iter().map(sentence).collect()
}

/// One limitation of a replay's numbers, in a sentence.
fn of_replay(doubt: ReplayLimitation, d: &DeviceReplay, overflowed: bool, advice: &Advice) -> String {
    match doubt {
        ReplayLimitation::Diverges => divergence(d, advice),
        doubt => in_words(doubt, overflowed, advice),
    }
}

/// A limitation in a sentence, without details from a replay.
fn in_words(doubt: ReplayLimitation, overflowed: bool, advice: &Advice) -> String {
    let n = |n: usize, what: &str| counted(n as u64, what);
    match doubt {
        ReplayLimitation::Diverges => "The recorded settings do not reproduce the recording.".to_owned(),
        ReplayLimitation::SettingsAssumed => SETTINGS_ASSUMED.to_owned(),
        ReplayLimitation::Skipped(action) => skipped(action),
        ReplayLimitation::NoSegmentEvents => NO_SEGMENT_EVENTS.to_owned(),
        ReplayLimitation::Overflowed => {
            let dropped = dropped(overflowed);
            format!("{}; earlier events are not replayed.", sentence(dropped))
        }
        ReplayLimitation::Preexisting(blocks) => format!(
            "{} live before recording began. Their addresses under other settings are unknown: the replay requests them again, in address order.",
            counted_with(blocks, "block", "was", "were")
        ),
        ReplayLimitation::OtherAllocator => {
            "The recording comes from an allocator other than PyTorch's, which has no such settings.".to_owned()
        }
        ReplayLimitation::InferredSizes(blocks) => {
            format!("The sizes of {} live before recording began are inferred.", n(blocks, "block"))
        }
        ReplayLimitation::Misplaced(blocks) => format!(
            "{} live before recording began do not fit at their recorded addresses, and are left out.",
            n(blocks, "block")
        ),
        ReplayLimitation::EndStateDisagreements(blocks) => format!(
            "The events and the end state disagree about {}; the replay follows the events.",
            n(blocks, "block")
        ),
        ReplayLimitation::GuessedLimit => {
            "The recording ran out of memory at a limit on reserved bytes. The limit is inferred from the reserved bytes at that event; it may be somewhat higher.".to_owned()
        }
        ReplayLimitation::SeenFromOutside => SEEN_FROM_OUTSIDE.to_owned(),
        ReplayLimitation::RoundedRequests => {
            "For a failed request only the rounded size is recorded, and these settings round differently.".to_owned()
        }
        ReplayLimitation::LostEvents(events) => lost_events(events),
        ReplayLimitation::SegmentContradictions(events) => format!("{}.", segment_contradictions(events)),
        ReplayLimitation::AssumedReleases(releases) => format!(
            "In {}, the recording does not show whether the allocator or the program (`empty_cache`) released cached memory: it is attributed to the allocator if the request would have set a new record, else to the program. Recorded stacks would show it.",
            n(releases, "case")
        ),
        ReplayLimitation::UnknownLimit => format!(
            "The limit is a fraction of the device size, which is unknown, so the replay has no limit; garbage collection follows the recording. Give the size with {}.",
            advice.capacity_alone
        ),
    }
}

/// The first difference between replay and recording, in a sentence.
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
            "The recorded settings do not reproduce the recording: at event {} the recording has {}, and the replay has {}. From this event on all numbers are approximate. {}{}",
            count(event as u64),
            happened(recorded),
            happened(replayed),
            if is_cupys_choice(d, recorded, replayed) {
                CUPYS_CHOICE.to_owned()
            } else {
                format!(
                    "The settings may have changed during the run, or the PyTorch release is a different one ({}).",
                    advice.release
                )
            },
            if d.lacks_growth {
                " Or the recording lacks events of new segments: it contains none (`skip_actions` leaves them out)."
            } else {
                ""
            }
        ),
        Some(Divergence::EndState { recorded, replayed }) => format!(
            "Every event is reproduced, but not the layout at the end: the recording has {}, and the replay has {}.",
            block(recorded),
            block(replayed)
        ),
    }
}

/// Whether recording and replay serve the same request by CuPy's rules, from free blocks of equal size.
fn is_cupys_choice(d: &DeviceReplay, recorded: Option<MemoryEvent>, replayed: Option<MemoryEvent>) -> bool {
    let same = |(a, b): (MemoryEvent, MemoryEvent)| {
        a.action == Action::Alloc && b.action == a.action && a.size == b.size
    };
    d.release.is_none() && recorded.zip(replayed).is_some_and(same)
}

/// The reason for a different block under CuPy's rules. Since release 14, CuPy's pool orders free blocks by size, and then by the
/// address of the Python object of each block.
const CUPYS_CHOICE: &str = "Of free blocks of equal size, CuPy takes the one whose Python object has the lowest address, which is not recorded; the replay takes the block with the lowest address.";

/// No segment event was recorded.
const NO_SEGMENT_EVENTS: &str = "No segment event was recorded: either all segments existed before recording began, or such events were left out (`skip_actions`). Reserved bytes are those of the segments at the end.";

/// The kinds of events that were left out, in a sentence.
pub(crate) fn not_recorded(actions: SkippedActions) -> String {
    let names: Vec<&str> = actions.iter().map(Action::name).collect();
    let names = match names.split_last() {
        Some((last, [])) => format!("`{last}`"),
        Some((last, others)) => format!("`{}` and `{last}`", others.join("`, `")),
        None => return String::new(),
    };
    format!(
        "Events of the kind {names} were not recorded (`skip_actions` leaves them out), although some must have happened."
    )
}

/// The consequences of leaving out this kind of events.
fn skipped(action: Action) -> String {
    match action {
        Action::Alloc => "Without `alloc`, the time of an allocation is unknown: memory counts as allocated since the beginning, or since its address was last freed, so bytes in use are an upper bound.",
        Action::FreeRequested => "Without `free_requested`, memory counts as allocated until it was available again, including the time in which only another stream used it.",
        Action::FreeCompleted => "Without `free_completed`, memory counts as available after its free was requested or its address was used again, even while another stream still used it.",
        Action::SegmentAlloc | Action::SegmentMap => "The times at which segments were reserved are unknown: reserved bytes are those of segments that exist at the end or whose release was recorded.",
        _ => "The times at which segments were released are unknown: reserved bytes lack segments that do not exist at the end.",
    }
    .to_owned()
}

/// The functions that the recorder of a process did not follow, in a sentence; `None` if there are none.
pub fn not_followed(trace: &Trace) -> Option<String> {
    let functions = &trace.process.as_ref()?.not_followed;
    let calls = functions.iter().map(|&(function, calls)| {
        format!("{} ({})", Shown::of(trace.strings.get(function)), counted(calls, "call"))
    });
    let calls: Vec<String> = calls.collect();
    let one = "The program called a function of the driver that the recorder does not follow, and that may have allocated memory";
    match &calls[..] {
        [] => None,
        [call] => Some(format!("{one}: {call}.")),
        _ => Some(format!("{}: {}.", one.replace("a function", "functions"), calls.join(", "))),
    }
}

/// The recorder was attached to the process.
const ATTACHED: &str = "The recorder was attached while the program ran: memory from before is unknown. Reserved bytes are those of segments from during the recording, so they can be fewer than the allocated bytes, and an earlier peak may have been higher.";

/// The recording was made from outside of the allocator.
const SEEN_FROM_OUTSIDE: &str =
    "The recorder sees blocks, not requests: requested bytes, streams and pools are unknown.";

/// The file has no settings.
const SETTINGS_ASSUMED: &str = "The file names no allocator settings; PyTorch's defaults were assumed.";

/// Events that are missing in the recording, in a sentence.
fn lost_events(events: usize) -> String {
    let are_missing = counted_with(events, "event", "is missing", "are missing");
    format!("{are_missing}: an address was used again or freed twice.")
}

/// Contradictory segment events, as the start of a sentence.
fn segment_contradictions(events: usize) -> String {
    let contradict = counted_with(events, "segment event", "contradicts", "contradict");
    format!("{contradict} each other or the end state")
}

/// A count and the verb that agrees with it: `1 event is missing`, `2 events are missing`.
fn counted_with(n: usize, what: &str, one: &str, many: &str) -> String {
    format!("{} {}", counted(n as u64, what), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use vramscope_trace::ProcessEvents;

    use super::*;

    #[test]
    fn functions_that_are_not_followed_are_named() {
        let mut trace = Trace::default();
        assert_eq!(not_followed(&trace), None);
        let [one, two] =
            ["cuMemFrobnicate", "cuMem\nTwiddle"].map(|name| trace.strings.intern(name).unwrap());
        let mut sentence = |calls: &[_]| {
            trace.process = Some(ProcessEvents { not_followed: calls.to_vec(), ..ProcessEvents::default() });
            not_followed(&trace)
        };
        assert_eq!(sentence(&[]), None);
        assert_eq!(
            sentence(&[(one, 1)]).unwrap(),
            "The program called a function of the driver that the recorder does not follow, and that may have allocated memory: cuMemFrobnicate (1 call)."
        );
        assert_eq!(
            sentence(&[(one, 3), (two, 2)]).unwrap(),
            "The program called functions of the driver that the recorder does not follow, and that may have allocated memory: cuMemFrobnicate (3 calls), cuMem\\u{a}Twiddle (2 calls)."
        );
    }
}
