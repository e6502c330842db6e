//! JSON of the limitations of numbers.

use serde::Serialize;
use vramscope_analysis::Quality;
use vramscope_trace::formats::Recording;
use vramscope_trace::{Action, Damage};

/// How reliable the numbers are.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Quality"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Quality"))]
pub(super) struct QualityJson {
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
pub(super) struct DamageJson {
    places: u64,
    /// Bytes that could not be read.
    bytes: u64,
    /// Offset of the first place in bytes.
    first_byte: u64,
}

impl DamageJson {
    /// The damage of a file; `None` if there is none.
    pub(super) fn of(recording: &Recording) -> Option<Self> {
        let Damage { places, bytes, first } = recording.notices.damage;
        (places > 0).then_some(Self { places, bytes, first_byte: first })
    }
}

impl QualityJson {
    pub(super) fn new(q: &Quality) -> Self {
        Self {
            exact: q.sizes_exact(),
            preexisting_blocks: q.preexisting,
            inferred_sizes: q.inferred_sizes,
            size_mismatches: q.size_mismatches,
            lost_events: q.lost_events,
            segment_contradictions: q.segment_contradictions,
            end_state_disagreements: q.end_state_disagreements,
            end_state_disagreement_bytes: q.end_state_disagreement_bytes,
            size_contradictions: q.size_contradictions,
            damaged: q.damaged,
            ends_early: q.ends_early,
            settings_assumed: q.settings_assumed,
            seen_from_outside: q.seen_from_outside,
            older_allocations: q.older_allocations,
            attached: q.attached,
            stacks_from_bytes: q.stacks_from,
            probably_overflowed: q.probably_overflowed,
            reproduced: q.reproduced,
            skipped_actions: q.skipped.iter().map(Action::name).collect(),
            lifetimes_inferred: q.lifetimes_inferred,
            no_segment_events: q.no_segment_events,
        }
    }
}
