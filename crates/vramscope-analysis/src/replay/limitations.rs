//! Reasons why a replay may not be exact.

use serde::{Deserialize, Serialize};
use vramscope_engine::Policy;
use vramscope_trace::{Action, PowerOfTwoDivisions};

use super::capacity::ReplayDevice;
use super::runs::Replay;

/// A reason why a replay's numbers may not be exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayLimitation {
    /// The recorded settings do not reproduce the recording; see
    /// [`Reproduction::first_difference`](crate::Reproduction::first_difference).
    Diverges,
    /// The file names no settings; PyTorch's defaults were assumed.
    SettingsAssumed,
    /// The recording comes from another allocator, which has no such settings.
    OtherAllocator,
    /// The oldest events were probably dropped; they are not replayed.
    Overflowed,
    /// Events of this kind were left out. Their content is inferred, and the reason for a difference from the recording is
    /// unknown.
    Skipped(Action),
    /// No segment event was recorded, and it is unknown whether they were left out.
    NoSegmentEvents,
    /// Number of allocations that were live before recording. Under other settings, or on a device without room for the original
    /// layout, their addresses would differ: they are requested anew, in address order.
    Preexisting(usize),
    /// Number of blocks that were live before recording with inferred sizes.
    InferredSizes(usize),
    /// Number of blocks that were live before recording and have no room at their supposed addresses; they are left out.
    Misplaced(usize),
    /// Number of missing frees in the recording.
    LostEvents(usize),
    /// Number of segment events that contradict each other or the end state.
    SegmentContradictions(usize),
    /// Number of blocks on which the events and the end state disagree; the events were used.
    EndStateDisagreements(usize),
    /// Number of times that memory was released without a record of whether the program (`empty_cache`) or the allocator, for
    /// lack of memory, released it. The allocator was assumed if the device must have been full.
    AssumedReleases(usize),
    /// A limit is a fraction of the device, whose size is unknown, so no limit applies. Garbage collections are replayed only
    /// under the recorded settings.
    UnknownLimit,
    /// The recording ran out of memory at a limit. The limit was assumed to equal the reserved bytes at that moment; it may have
    /// been somewhat higher.
    GuessedLimit,
    /// Only the rounded sizes of failed requests are recorded, and other settings round differently.
    RoundedRequests,
    /// The recording was made from outside of the allocator. Requests have the sizes of their blocks and no streams: other settings may
    /// round them differently, and blocks of several streams are treated as those of one.
    SeenFromOutside,
}

impl Replay<'_> {
    /// Returns the reasons why the numbers under `policy` may not be exact on this device.
    pub fn limitations(&self, policy: &Policy, device: impl Into<ReplayDevice>) -> Vec<ReplayLimitation> {
        let device = self.with_its_size(device.into());
        let quality = &self.history.quality;
        let is_recorded = *policy == self.policy && self.start_fits(device) && !self.is_unchecked();
        // Then memory is released as recorded, by either side.
        let follows = is_recorded && device == ReplayDevice::Recorded;
        let collects = self.policy.garbage_collection_threshold.is_some();
        let has_limit = policy.memory_fraction.is_some() || (is_recorded && collects);
        let rounds = self.policy.roundup_power2_divisions != PowerOfTwoDivisions::default();
        let fails = self.history.device().events.actions().contains(&Action::Oom);
        let some = |n: usize, limitation: fn(usize) -> ReplayLimitation| (n > 0).then(|| limitation(n));
        [
            (self.reproduction.first_difference.is_some() && !self.is_unchecked())
                .then_some(ReplayLimitation::Diverges),
            quality.missing.settings_assumed.then_some(ReplayLimitation::SettingsAssumed),
            (self.policy.release().is_none() && !is_recorded).then_some(ReplayLimitation::OtherAllocator),
            quality.inferred.probably_overflowed.then_some(ReplayLimitation::Overflowed),
            some(if is_recorded { 0 } else { quality.missing.preexisting }, ReplayLimitation::Preexisting),
            some(quality.inferred.inferred_sizes, ReplayLimitation::InferredSizes),
            some(if self.is_unchecked() { 0 } else { self.start.misplaced }, ReplayLimitation::Misplaced),
            (quality.inferred.no_segment_events && !self.skipped.segments())
                .then_some(ReplayLimitation::NoSegmentEvents),
            some(quality.contradictions.lost_events, ReplayLimitation::LostEvents),
            some(quality.contradictions.segment_contradictions, ReplayLimitation::SegmentContradictions),
            some(quality.contradictions.end_state_disagreements, ReplayLimitation::EndStateDisagreements),
            some(if follows { 0 } else { self.program.assumed }, ReplayLimitation::AssumedReleases),
            (has_limit && !device.has_limits()).then_some(ReplayLimitation::UnknownLimit),
            quality.missing.seen_from_outside.then_some(ReplayLimitation::SeenFromOutside),
            (fails && rounds && !is_recorded).then_some(ReplayLimitation::RoundedRequests),
        ]
        .into_iter()
        .flatten()
        .chain(self.skipped.iter().map(ReplayLimitation::Skipped))
        .collect()
    }
}
