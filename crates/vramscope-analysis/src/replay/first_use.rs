//! Segments whose events were left out; they are assumed to be allocated at their first use.

use std::collections::BTreeMap;

use super::first_difference::ReplayDifference;
use crate::history::{History, Moment, RecordedAllocation, ReservedRange};

/// The event at which each segment was allocated, by start address: that of its first allocation.
///
/// If a recording contains no allocated segment, either all segments existed when it began, or their events were not recorded.
/// The allocator shows which. It serves a request from the best-fitting free block, so a segment that existed earlier would have
/// served other requests. Expandable segments grow in place and serve the same requests in both cases, so they are not included.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstUses(BTreeMap<u64, u32>);

impl FirstUses {
    /// Empty if some event records an allocated segment. Segments with allocations that were live before the first event are not
    /// included, because they existed.
    pub(super) fn of(history: &History) -> Self {
        let ranges = &history.reserved;
        if history.quality.contradictions.segment_contradictions > 0
            || ranges.iter().any(|r| r.from != Moment::START)
        {
            return Self::default();
        }
        let around = |a: &RecordedAllocation| {
            let before = ranges.partition_point(|r| r.address <= a.address).checked_sub(1);
            before.map(|i| &ranges[i]).filter(|r| a.address < r.end() && !r.expandable)
        };
        let mut uses = BTreeMap::new();
        for a in history.allocations.iter().filter(|a| !a.is_preexisting()) {
            if let Some((range, event)) = around(a).zip(a.from.event()) {
                uses.entry(range.address).or_insert(event as u32);
            }
        }
        for range in history.allocations.iter().filter(|a| a.is_preexisting()).filter_map(around) {
            uses.remove(&range.address);
        }
        Self(uses)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the segment that the replay used where it diverged from the recording, if the recording first used it later: its
    /// start address and the event of its first use.
    pub(super) fn used_later(
        &self,
        history: &History,
        first_difference: Option<ReplayDifference>,
    ) -> Option<(u64, u32)> {
        let Some(ReplayDifference::Event { event, replayed: Some(at), .. }) = first_difference else {
            return None;
        };
        let (&address, &first_use) = self.0.range(..=at.address).next_back()?;
        let is_around = |r: &ReservedRange| r.address == address && at.address < r.end();
        let later = first_use as usize > event && history.reserved.iter().any(is_around);
        later.then_some((address, first_use))
    }

    pub(super) fn insert(&mut self, address: u64, event: u32) {
        self.0.insert(address, event);
    }

    /// Returns the event at which the segment that starts at `address` was allocated.
    pub(super) fn get(&self, address: u64) -> Option<u32> {
        self.0.get(&address).copied()
    }
}
