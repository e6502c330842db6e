//! Why an answer may not be exact.

use vramscope_engine::Policy;
use vramscope_trace::{Action, PowerOfTwoDivisions};

use super::capacity::ReplayDevice;
use super::runs::Replay;

/// A reason why a replay's numbers are approximate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// The recorded settings do not reproduce the recording; see
    /// [`Reproduction::divergence`](crate::Reproduction::divergence).
    Diverges,
    /// The file names no settings; PyTorch's defaults were taken for them.
    SettingsAssumed,
    /// The recording is of another allocator, which has no such settings.
    OtherAllocator,
    /// The oldest events were probably dropped; what happened before is not replayed.
    Overflowed,
    /// Events of this kind were left out: what they would have said is inferred, and where the replay parts from the
    /// recording, nobody can tell why.
    Skipped(Action),
    /// No segment event was recorded, and whether they were left out cannot be told.
    NoSegmentEvents,
    /// Allocations that were live before recording. Under other settings, or on a device that has no room for
    /// them as they lay, they would have lain elsewhere: they are asked for anew, in address order.
    Preexisting(usize),
    /// Blocks live before recording whose sizes are inferred.
    InferredSizes(usize),
    /// Blocks live before recording that have no room where they are said to lie, and are left out.
    Misplaced(usize),
    /// Frees that are missing in the recording.
    LostEvents(usize),
    /// Segment events that contradict each other or the end state.
    SegmentContradictions(usize),
    /// Blocks about which the events and the end state disagree; the events were followed.
    EndStateDisagreements(usize),
    /// Times memory was given back, and it was not recorded whether by the program (`empty_cache`) or by the
    /// allocator for want of memory. It was taken for the latter where the device must have been full.
    AssumedReleases(usize),
    /// A limit is part of the device, whose size is not known: there is none then, and what was collected as
    /// garbage is followed under the recorded settings alone.
    UnknownLimit,
    /// The recording ran out of memory at a limit, which is taken for what was reserved then; it may have been
    /// somewhat higher.
    GuessedLimit,
    /// Of requests that failed only the rounded size is recorded, and other settings round otherwise.
    RoundedRequests,
}

impl Replay<'_> {
    /// Why the numbers under `policy` may not be exact on this device.
    pub fn doubts(&self, policy: &Policy, device: impl Into<ReplayDevice>) -> Vec<Doubt> {
        let device = self.with_its_size(device.into());
        let quality = &self.history.quality;
        let is_recorded = *policy == self.policy && self.start_fits(device) && !self.is_unchecked();
        // Then memory is given back as it was, whoever did it.
        let follows = is_recorded && device == ReplayDevice::Recorded;
        let collects = self.policy.garbage_collection_threshold.is_some();
        let has_limit = policy.memory_fraction.is_some() || (is_recorded && collects);
        let rounds = self.policy.roundup_power2_divisions != PowerOfTwoDivisions::default();
        let fails = self.history.device().events.actions().contains(&Action::Oom);
        let some = |n: usize, doubt: fn(usize) -> Doubt| (n > 0).then(|| doubt(n));
        [
            (self.reproduction.divergence.is_some() && !self.is_unchecked()).then_some(Doubt::Diverges),
            quality.settings_assumed.then_some(Doubt::SettingsAssumed),
            (self.policy.release().is_none() && !is_recorded).then_some(Doubt::OtherAllocator),
            quality.probably_overflowed.then_some(Doubt::Overflowed),
            some(if is_recorded { 0 } else { quality.preexisting }, Doubt::Preexisting),
            some(quality.inferred_sizes, Doubt::InferredSizes),
            some(if self.is_unchecked() { 0 } else { self.start.misplaced }, Doubt::Misplaced),
            (quality.no_segment_events && !self.skipped.segments()).then_some(Doubt::NoSegmentEvents),
            some(quality.lost_events, Doubt::LostEvents),
            some(quality.segment_contradictions, Doubt::SegmentContradictions),
            some(quality.end_state_disagreements, Doubt::EndStateDisagreements),
            some(if follows { 0 } else { self.program.assumed }, Doubt::AssumedReleases),
            (has_limit && !device.has_limits()).then_some(Doubt::UnknownLimit),
            (fails && rounds && !is_recorded).then_some(Doubt::RoundedRequests),
        ]
        .into_iter()
        .flatten()
        .chain(self.skipped.iter().map(Doubt::Skipped))
        .collect()
    }
}
