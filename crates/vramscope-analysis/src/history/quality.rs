//! How accurate a recording's numbers are.

use serde::{Deserialize, Serialize};

use super::skipped::SkippedActions;

/// How accurate a recording's numbers are, and the reasons why not more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quality {
    /// What contradicts itself in a recording: events are missing, or the file was changed.
    pub contradictions: Contradictions,
    /// What a recording lacks, by its own statement or by its kind.
    pub missing: Missing,
    /// What was inferred, because the recording does not have it.
    pub inferred: Inferred,
}

/// What contradicts itself in a recording: events are missing, or the file was changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradictions {
    /// Number of contradictions that show missing events: allocations at the address of a block that was never freed, and frees
    /// of blocks that were not live.
    pub lost_events: usize,
    /// Number of blocks that are active in the end state but not after the events, or vice versa.
    pub end_state_disagreements: usize,
    /// Bytes of the blocks in [`end_state_disagreements`](Self::end_state_disagreements).
    pub end_state_disagreement_bytes: u64,
    /// Number of segment events that contradict each other or the end state.
    pub segment_contradictions: usize,
    /// Number of live blocks whose size in the end state differs from the size that follows from the events.
    pub size_mismatches: usize,
    /// Number of sizes that contradict each other: of an allocation and its free, of a live allocation and its block in the end state, and
    /// of a segment and its blocks. The recorder writes equal ones, so the file was changed.
    pub size_contradictions: usize,
    /// Bytes that peaks may be too high by: of allocations that a missing event ended, and of sizes that contradict each other.
    pub contradictory_bytes: u64,
}

/// What a recording lacks, by its own statement or by its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Number of allocations that were live before recording began.
    pub preexisting: usize,
    /// Number of allocations that a cut log begins with: they are older than the log. Memory that was freed before the cut is not in it.
    pub older_allocations: usize,
    /// The file is damaged, and events may be missing there ([`DeviceTrace::gap`]).
    pub damaged: bool,
    /// The recording ends before the program did ([`Trace::ends_early`]).
    pub ends_early: bool,
    /// The file names no allocator settings; PyTorch's defaults were assumed.
    pub settings_assumed: bool,
    /// Requests were seen from outside of the allocator: their sizes are those of blocks, so requested bytes are unknown, and all streams
    /// are 0.
    pub seen_from_outside: bool,
    /// The recorder was attached to a process that used a GPU already. What it allocated before is unknown.
    pub attached: bool,
    /// Only allocations of at least this many bytes have stacks; `None` for no such limit.
    pub stacks_from: Option<u64>,
    /// Kinds of events that were left out (`skip_actions`), as far as it can be determined.
    pub skipped: SkippedActions,
}

/// What was inferred, because the recording does not have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inferred {
    /// Number of allocations with an inferred block size.
    pub inferred_sizes: usize,
    /// Some of the moments at which blocks were allocated, freed or became available are inferred, because the kinds of events
    /// that would record them were left out.
    pub lifetimes_inferred: bool,
    /// The oldest events were probably dropped by the ring buffer (`max_entries`), or by a cut of the log.
    pub probably_overflowed: bool,
    /// Memory was allocated, nothing was live before the first event, and segments are known only from the end state. Either the
    /// allocator held all segments before recording began, or segment events were left out; the recording does not show which.
    pub no_segment_events: bool,
    /// Whether a [`Replay`](crate::Replay) under the allocator's rules gives all recorded addresses, all segment events and the
    /// recorded layout at the end. `None` if no replay was needed because all block sizes follow from the layout, or if the
    /// result is unknown because kinds of events were left out.
    pub reproduced: Option<bool>,
}

impl Quality {
    /// Whether allocated and active bytes are exact, not inferred.
    pub fn sizes_exact(&self) -> bool {
        self.inferred.inferred_sizes == 0
            && self.contradictions.size_mismatches == 0
            && self.contradictions.lost_events == 0
            && self.contradictions.segment_contradictions == 0
            && !self.missing.settings_assumed
            && !self.inferred.lifetimes_inferred
    }
}
