//! What a recording shows for certain although a part of it may be missing: the rule for each kind of missing part.
//!
//! | missing part | a value may be higher | it may be lower |
//! |---|---|---|
//! | all events ([`Unknown::NoHistory`]), the first ones ([`Unknown::EventsDropped`]), the last ones ([`Unknown::EndsEarly`]) | yes | no |
//! | events where the file is damaged ([`Unknown::Damaged`]) | yes | yes: a missing free |
//! | sizes and events that contradict each other ([`Unknown::Contradictions`]) | yes | by the bytes that contradict |
//! | events between the copies of the trace and of the end state | by their bytes | no |
//! | events that the recorder only counted ([`Unknown::CountedMore`]) | up to its count | no |

use crate::history::History;
use crate::timeline::ByteKind;

/// Bytes by which a block may be larger than its request.
const LARGEST_REST: u64 = 1 << 20;

/// Whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetStatus {
    /// The budget is kept.
    Kept,
    /// The budget is exceeded.
    Exceeded,
    /// The recordings do not show whether the budget is kept.
    Unknown(Unknown),
}

/// Why it is unknown whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Only the end state was recorded; earlier events are unknown.
    NoHistory,
    /// No allocation was recorded with a stack.
    NoStacks,
    /// The baseline lacks the device.
    NoBaseline,
    /// Only the end state of the baseline was recorded.
    NoBaselineHistory,
    /// The oldest events were probably dropped ([`Quality::probably_overflowed`]); their effects are unknown.
    EventsDropped,
    /// No allocation has a known category; see [`AllocationCategories`].
    NoCategories,
    /// The oldest events of the baseline were probably dropped; its peak may have been higher.
    BaselineEventsDropped,
    /// The recording is in a format from which failed requests are not read.
    NoFailedRequests,
    /// The recording lacks segments: more bytes are active than reserved.
    NoSegments,
    /// The file is damaged, and events are missing there ([`Quality::damaged`]).
    Damaged,
    /// Sizes or events contradict each other ([`Quality::size_contradictions`], [`Quality::lost_events`]).
    Contradictions,
    /// The recording ends before the program did ([`Quality::ends_early`]).
    EndsEarly,
    /// The recorder counted more bytes than the recording has events for ([`DeviceTrace::counted_peak`](vramscope_trace::DeviceTrace)).
    CountedMore,
    /// A failed request may be among events of an unknown kind.
    UnknownEvents,
    /// The baseline is damaged or ends early; its peak may have been another.
    BaselineIncomplete,
}

/// What is known about a number of bytes although parts of a recording may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBytes {
    /// It is at least this.
    pub least: u64,
    /// It is at most this; `None` if nothing limits it.
    pub most: Option<u64>,
    /// Why `most` is higher than the measured bytes.
    pub why: Unknown,
}

impl KnownBytes {
    /// What is known of a peak. `measured` is the peak of the recorded events.
    pub fn of_peak(history: &History, kind: ByteKind, measured: u64) -> Self {
        let quality = &history.quality;
        let is_reserved = kind == ByteKind::Reserved;
        let least = if quality.missing.damaged {
            let certain = history.certain_peaks();
            if is_reserved { certain.reserved } else { certain.allocated }
        } else {
            measured.saturating_sub(quality.contradictions.contradictory_bytes)
        };
        let contradicts = is_reserved && quality.contradictions.segment_contradictions > 0;
        if let Some(why) = lacks_events(history).or(contradicts.then_some(Unknown::Contradictions)) {
            return Self { least, most: None, why };
        }
        // PyTorch copies the end state while the program runs: the events between both copies are missing. A block may be larger than
        // its request.
        let disagreements = quality.contradictions.end_state_disagreements as u64;
        let missing = quality.contradictions.end_state_disagreement_bytes + disagreements * LARGEST_REST;
        let most = measured.saturating_add(missing);
        match history.device().counted_peak {
            Some(counted) if counted > most && !is_reserved => {
                Self { least, most: Some(counted), why: Unknown::CountedMore }
            }
            _ => Self { least, most: Some(most), why: Unknown::Contradictions },
        }
    }

    pub(crate) fn exactly(bytes: u64) -> Self {
        Self { least: bytes, most: Some(bytes), why: Unknown::Contradictions }
    }

    /// Whether these bytes keep a limit. A missing part changes neither a limit that is exceeded without it, nor one that is kept
    /// whatever it contains.
    pub(crate) fn within(self, limit: Self) -> BudgetStatus {
        match (self.most, limit.most) {
            (_, Some(limit)) if self.least > limit => BudgetStatus::Exceeded,
            (Some(most), _) if most <= limit.least => BudgetStatus::Kept,
            (Some(most), None) if most == self.least => BudgetStatus::Unknown(limit.why),
            _ => BudgetStatus::Unknown(self.why),
        }
    }
}

/// Unknown if the recording has only an end state.
pub(crate) fn lacks_history(history: &History) -> Option<Unknown> {
    (history.device().was_used() && history.device().events.is_empty()).then_some(Unknown::NoHistory)
}

/// Unknown if the recording lacks events, which may have allocated more: all, the first, some of the middle, or the last.
pub(crate) fn lacks_events(history: &History) -> Option<Unknown> {
    let quality = &history.quality;
    let dropped =
        (quality.inferred.probably_overflowed || quality.missing.attached).then_some(Unknown::EventsDropped);
    let ends_early = quality.missing.ends_early.then_some(Unknown::EndsEarly);
    lacks_history(history).or(dropped).or(has_wrong_events(history)).or(ends_early)
}

/// Unknown if events of the middle are missing or changed, which may have freed what seems to be live.
pub(crate) fn has_wrong_events(history: &History) -> Option<Unknown> {
    let quality = &history.quality;
    let contradicts = quality.contradictions.lost_events > 0
        || quality.contradictions.size_contradictions > 0
        || quality.contradictions.size_mismatches > 0;
    let damaged = quality.missing.damaged.then_some(Unknown::Damaged);
    damaged.or(contradicts.then_some(Unknown::Contradictions))
}
