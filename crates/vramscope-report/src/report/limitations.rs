//! The section about the limitations of the numbers of a recording, and those of its replay.

use serde::Serialize;
use vramscope_analysis::{
    DeviceReplay, EndBlock, MemoryEvent, Quality, Recorder, ReplayDifference, ReplayLimitation,
    SkippedActions, Summary,
};
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::formats::Recording;
use vramscope_trace::{Action, Damage, Trace};

use crate::advice::{Advice, dropped, larger, sentence};
use crate::shown::Shown;
use crate::text::page::Page;

/// How reliable the numbers are.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Quality"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Quality"))]
pub(crate) struct QualityJson {
    /// Whether allocated and active bytes are exact.
    exact: bool,
    preexisting_blocks: usize,
    inferred_sizes: usize,
    size_mismatches: usize,
    lost_events: usize,
    segment_contradictions: usize,
    end_state_disagreements: usize,
    end_state_disagreement_bytes: u64,
    /// Number of sizes that contradict each other, such as those of an allocation and its free.
    size_contradictions: usize,
    /// Whether events may be missing because the file is damaged.
    damaged: bool,
    /// Whether the recording ends before the program did: it was killed or is still running, or the file was cut.
    ends_early: bool,
    settings_assumed: bool,
    /// Whether requested bytes, streams and pools are unknown: the recording was made from outside of the allocator.
    seen_from_outside: bool,
    /// Number of allocations that are older than the log, which was cut.
    older_allocations: usize,
    /// Whether the recorder was attached to a process that used a GPU already, so that memory from before is unknown.
    attached: bool,
    /// Only allocations of at least this many bytes have stacks; null for no such limit.
    stacks_from_bytes: Option<u64>,
    probably_overflowed: bool,
    /// Whether the allocator's rules reproduce every address, every segment event and the layout at the end.
    reproduced: Option<bool>,
    /// Kinds of events that were left out of the recording.
    skipped_actions: Vec<&'static str>,
    /// Whether lifetimes of blocks are partly inferred, because of `skipped_actions`.
    lifetimes_inferred: bool,
    /// Whether no segment event was recorded, and it is unknown whether they were left out.
    no_segment_events: bool,
}

/// Damaged places of a file. What follows them was read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Damage"))]
pub(crate) struct DamageJson {
    places: u64,
    /// Bytes that could not be read.
    bytes: u64,
    /// Offset of the first place in bytes.
    first_byte: u64,
}

impl DamageJson {
    /// The damage of a file; `None` if there is none.
    pub(crate) fn of(recording: &Recording) -> Option<Self> {
        let Damage { places, bytes, first } = recording.notices.damage;
        (places > 0).then_some(Self { places, bytes, first_byte: first })
    }
}

impl QualityJson {
    pub(crate) fn new(q: &Quality) -> Self {
        Self {
            exact: q.sizes_exact(),
            preexisting_blocks: q.missing.preexisting,
            inferred_sizes: q.inferred.inferred_sizes,
            size_mismatches: q.contradictions.size_mismatches,
            lost_events: q.contradictions.lost_events,
            segment_contradictions: q.contradictions.segment_contradictions,
            end_state_disagreements: q.contradictions.end_state_disagreements,
            end_state_disagreement_bytes: q.contradictions.end_state_disagreement_bytes,
            size_contradictions: q.contradictions.size_contradictions,
            damaged: q.missing.damaged,
            ends_early: q.missing.ends_early,
            settings_assumed: q.missing.settings_assumed,
            seen_from_outside: q.missing.seen_from_outside,
            older_allocations: q.missing.older_allocations,
            attached: q.missing.attached,
            stacks_from_bytes: q.missing.stacks_from,
            probably_overflowed: q.inferred.probably_overflowed,
            reproduced: q.inferred.reproduced,
            skipped_actions: q.missing.skipped.iter().map(Action::name).collect(),
            lifetimes_inferred: q.inferred.lifetimes_inferred,
            no_segment_events: q.inferred.no_segment_events,
        }
    }
}

/// The limitations of a recording's numbers, one sentence each; empty if all are exact.
pub(crate) fn limitations(q: &Quality, advice: &Advice) -> Vec<String> {
    let n = |n: usize, what: &str| counted(n as u64, what);
    let mut notes = Vec::new();
    if !q.missing.skipped.is_empty() {
        notes.push(not_recorded(q.missing.skipped));
        notes.extend(q.missing.skipped.iter().map(skipped));
    }
    if q.inferred.no_segment_events {
        notes.push(NO_SEGMENT_EVENTS.to_owned());
    }
    if q.inferred.inferred_sizes > 0 {
        notes.push(format!(
            "Allocated and active bytes are approximate: the sizes of {}, most of them live before recording began, are inferred from the requested sizes; each may be up to 1 MiB larger.",
            n(q.inferred.inferred_sizes, "block")
        ));
    }
    if q.contradictions.size_mismatches > 0 {
        notes.push(format!(
            "{} not of the size that the allocator's rules give; the sizes in the end state are used. The settings may have changed during the run.",
            counted_with(q.contradictions.size_mismatches, "block", "is", "are")
        ));
    }
    if q.contradictions.lost_events > 0 {
        notes.push(lost_events(q.contradictions.lost_events));
    }
    if q.contradictions.end_state_disagreements > 0 {
        notes.push(format!(
            "The trace and the end state disagree about {} ({}); peaks follow the trace, numbers at the end follow the end state. PyTorch copies one after the other while the program runs.",
            n(q.contradictions.end_state_disagreements, "block"),
            bytes(q.contradictions.end_state_disagreement_bytes)
        ));
    }
    if q.contradictions.segment_contradictions > 0 {
        notes.push(format!(
            "{}; reserved bytes are approximate.",
            segment_contradictions(q.contradictions.segment_contradictions)
        ));
    }
    if q.contradictions.size_contradictions > 0 {
        notes.push(format!(
            "{} other sizes in another place of the recording: the file was changed.",
            counted_with(q.contradictions.size_contradictions, "size", "has", "have")
        ));
    }
    if q.missing.damaged {
        notes.push("The file is damaged, and events may be missing there: peaks may have been higher, and memory whose free is missing counts as live.".to_owned());
    }
    if q.missing.ends_early {
        notes
            .push("The recording ends before the program did: a later peak may have been higher.".to_owned());
    }
    if q.inferred.reproduced == Some(false) {
        notes.push(format!(
            "The allocator's rules do not reproduce this recording; {} shows the first difference. The settings may have changed during the run.",
            advice.replay
        ));
    }
    if q.missing.older_allocations > 0 {
        notes.push(format!(
            "The log begins with {} older than the log, with their times and stacks. Memory that was freed before the log began is not in it.",
            counted_with(q.missing.older_allocations, "allocation", "that is", "that are")
        ));
    }
    if q.missing.attached {
        notes.push(ATTACHED.to_owned());
    }
    if let Some(least) = q.missing.stacks_from {
        notes.push(format!("Only allocations of at least {} have stacks.", bytes(least)));
    }
    if q.missing.seen_from_outside {
        notes.push(SEEN_FROM_OUTSIDE.to_owned());
    }
    if q.missing.settings_assumed {
        notes.push(SETTINGS_ASSUMED.to_owned());
    }
    notes
}

/// The limitations of a replay's numbers, one sentence each; empty if all are exact. The first list is for the requested settings,
/// the second for other settings only. `overflowed` if the recording states that its ring buffer dropped events.
pub(crate) fn replay_limitations(
    replay: &DeviceReplay,
    overflowed: bool,
    advice: &Advice,
) -> (Vec<String>, Vec<String>) {
    let sentence = |&limitation: &ReplayLimitation| of_replay(limitation, replay, overflowed, advice);
    let of_others =
        replay.what_if_limitations.iter().filter(|limitation| !replay.limitations.contains(limitation));
    (replay.limitations.iter().map(sentence).collect(), of_others.map(sentence).collect())
}

/// The limitations of a setting's effect in a report, one sentence each.
pub(crate) fn setting_limitations(limitations: &[ReplayLimitation], advice: &Advice) -> Vec<String> {
    let sentence = |&limitation: &ReplayLimitation| match limitation {
        ReplayLimitation::Diverges => format!(
            "The recorded settings do not reproduce the recording; {} shows the first difference.",
            advice.replay
        ),
        limitation => in_words(limitation, false, advice),
    };
    limitations.iter().map(sentence).collect()
}

/// One limitation of a replay's numbers, in a sentence.
fn of_replay(limitation: ReplayLimitation, d: &DeviceReplay, overflowed: bool, advice: &Advice) -> String {
    match limitation {
        ReplayLimitation::Diverges => first_difference(d, advice),
        limitation => in_words(limitation, overflowed, advice),
    }
}

/// A limitation in a sentence, without details from a replay.
fn in_words(limitation: ReplayLimitation, overflowed: bool, advice: &Advice) -> String {
    let n = |n: usize, what: &str| counted(n as u64, what);
    match limitation {
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
fn first_difference(d: &DeviceReplay, advice: &Advice) -> String {
    let happened = |h: Option<MemoryEvent>| match h {
        None => "nothing".to_owned(),
        Some(h) => format!("{} of {} at {:#x}", h.action.name(), bytes(h.size), h.address),
    };
    let block = |b: Option<EndBlock>| match b {
        None => "no block".to_owned(),
        Some(b) => format!("a block of {} at {:#x}, {}", bytes(b.size), b.address, b.state.name()),
    };
    match d.first_difference {
        None => String::new(),
        Some(ReplayDifference::Event { event, recorded, replayed }) => format!(
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
        Some(ReplayDifference::EndState { recorded, replayed }) => format!(
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

/// The limitations of the numbers of a recorded device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confidence {
    /// Whether all numbers are exact.
    pub is_exact: bool,
    /// A short title for the limitations.
    pub title: &'static str,
    /// The limitations, one sentence each; empty if all numbers are exact.
    pub limitations: Vec<String>,
    /// Whether a replay under the recorded settings reproduced the recording, in a sentence.
    pub replay: &'static str,
    /// States that the oldest events were dropped, and how to record them; `None` if none was dropped.
    pub dropped: Option<String>,
}

impl Confidence {
    /// The limitations for this quality. `overflowed` if the recording states that its ring buffer dropped events.
    pub fn of(q: &Quality, overflowed: bool, recorder: Recorder, advice: &Advice) -> Self {
        let limitations = limitations(q, advice);
        let is_exact = q.sizes_exact() && limitations.is_empty();
        Self {
            is_exact,
            title: if is_exact { "The numbers are exact" } else { "Some numbers may not be exact" },
            limitations,
            replay: match q.inferred.reproduced {
                Some(true) => {
                    "A replay under the recorded settings reproduces every segment of the recording."
                }
                Some(false) => "A replay under the recorded settings does not reproduce the recording.",
                None => "All block sizes follow from the layout; no replay was needed.",
            },
            dropped: q.inferred.probably_overflowed.then(|| {
                let (dropped, larger) = (sentence(dropped(overflowed)), larger(recorder));
                format!("{dropped}: record with {larger} to see them.")
            }),
        }
    }
}

/// The limitations of the numbers of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayConfidence {
    /// A short title for the limitations.
    pub title: &'static str,
    /// What the replay reproduced; `None` if it did not reproduce the recording, or reproduction was not requested.
    pub reproduced: Option<&'static str>,
    /// The limitations, one sentence each; empty if all numbers are exact.
    pub limitations: Vec<String>,
    /// Further limitations, which apply only to settings other than the recorded ones.
    pub what_if_limitations: Vec<String>,
}

impl ReplayConfidence {
    /// The limitations of `replay`. `overflowed` if the recording states that its ring buffer dropped events.
    pub fn of(replay: &DeviceReplay, overflowed: bool, advice: &Advice) -> Self {
        let (of_all, what_if_limitations) = replay_limitations(replay, overflowed, advice);
        let limitations: Vec<String> = unchecked(replay).into_iter().chain(of_all).collect();
        let reproduced = (replay.reproduced == Some(true)).then_some(if replay.compared_end {
            "Under the recorded settings, the replay reproduces every address, every segment event and the layout at the end."
        } else {
            "Under the recorded settings, the replay reproduces every address and every segment event. The layout at the end could not be compared."
        });
        let title = match (reproduced, limitations.is_empty() && what_if_limitations.is_empty()) {
            (Some(_), _) => "Exact: the replay reproduces the recording",
            (None, false) => "Approximate",
            (None, true) => "Limitations",
        };
        Self { title, reproduced, limitations, what_if_limitations }
    }
}

/// A limitation of the comparison with the recording, because of missing events.
fn unchecked(replay: &DeviceReplay) -> Option<String> {
    if replay.reproduced.is_some() || replay.skipped.is_empty() {
        return None;
    }
    let checked = if replay.is_unchecked {
        "Because of that, the replay cannot be compared with the recording; it follows the allocator's rules alone."
    } else {
        "The replay reproduces every recorded address; the times at which segments were reserved or released are inferred."
    };
    Some(format!("{} {checked}", not_recorded(replay.skipped)))
}

/// The limitations of numbers, one sentence each.
pub(crate) fn quality(q: &Quality, overflowed: bool, recorder: Recorder, advice: &Advice) -> Vec<String> {
    let dropped = q.inferred.probably_overflowed.then(|| {
        let (dropped, larger) = (sentence(dropped(overflowed)), larger(recorder));
        format!("{dropped}: an earlier peak may have been higher. Record with {larger}.")
    });
    dropped.into_iter().chain(limitations(q, advice)).collect()
}

impl Page<'_> {
    pub(crate) fn confidence_of(&self, s: &Summary) -> Confidence {
        Confidence::of(&s.quality, self.names.overflowed(s.device), self.recorder, &self.advice)
    }

    /// The limitations of the numbers.
    pub(crate) fn limitations(&mut self, s: &Summary) {
        let mut limitations = self.confidence_of(s).limitations;
        limitations.extend(not_followed(self.names.trace));
        if limitations.is_empty() {
            return;
        }
        self.heading("Limitations of these numbers");
        for limitation in limitations {
            self.words(2, &limitation);
        }
    }
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
