//! Why an answer may not be exact.

use super::Replay;

/// A reason why a replay's numbers are approximate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The recorded settings do not reproduce the recording; see
    /// [`Reproduction::divergence`](super::Reproduction::divergence).
    Diverges,
    /// The file names no settings; PyTorch's defaults were taken for them.
    SettingsAssumed,
    /// The oldest events were probably dropped; what happened before is not replayed.
    Overflowed,
    /// Allocations that were live before recording. Under other settings they would have lain elsewhere: they
    /// are asked for anew, in address order.
    Preexisting(usize),
    /// Blocks live before recording whose sizes are inferred, or that have no room where they are said to lie.
    InferredStart(usize),
    /// Frees that are missing in the recording.
    LostEvents(usize),
    /// Segment events that contradict each other or the end state.
    SegmentContradictions(usize),
    /// Times memory was given back, and it was not recorded whether by the program (`empty_cache`) or by the
    /// allocator for want of memory. It was taken for the latter where the device must have been full.
    AssumedReleases(usize),
    /// Garbage is collected by a limit that is part of the device, whose size is not known: what was collected
    /// is followed under the recorded settings, and nothing is collected under others.
    UnknownLimit,
}

impl Replay<'_, '_> {
    /// Why the numbers under the recorded settings may not be exact, or those under others.
    pub fn doubts(&self, recorded_settings: bool, knows_capacity: bool) -> Vec<Doubt> {
        let quality = &self.history.quality;
        let start = quality.preexisting;
        let inferred = quality.inferred_sizes + self.start.misplaced;
        let some = |n: usize, doubt: fn(usize) -> Doubt| (n > 0).then(|| doubt(n));
        let diverges = self.reproduction.divergence.is_some();
        // Then it is done as it was, whoever did it.
        let follows = recorded_settings && !knows_capacity;
        let collects = self.policy.garbage_collection_threshold.is_some();
        [
            diverges.then_some(Doubt::Diverges),
            quality.settings_assumed.then_some(Doubt::SettingsAssumed),
            quality.probably_overflowed.then_some(Doubt::Overflowed),
            some(if recorded_settings { 0 } else { start }, Doubt::Preexisting),
            some(inferred, Doubt::InferredStart),
            some(quality.lost_events, Doubt::LostEvents),
            some(quality.segment_contradictions, Doubt::SegmentContradictions),
            some(if follows { 0 } else { self.program.assumed }, Doubt::AssumedReleases),
            (collects && !knows_capacity).then_some(Doubt::UnknownLimit),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
