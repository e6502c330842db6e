//! Segments whose events were left out, taken for coming when they were first used.

use std::collections::BTreeMap;

use super::divergence::Divergence;
use crate::history::{Allocation, History};
use crate::moment::Moment;
use crate::segments::ReservedRange;

/// When each segment came, by its first byte: with the event of the first allocation in it.
///
/// A recording in which no segment was taken may have begun when all its segments were there, or they were taken while
/// it was made and nobody wrote that down. The allocator tells which: it serves a request from the free block that fits
/// best, and a segment that was there before would have served others. Segments of expandable memory are grown in
/// place, which serves the same requests either way, and are left out here.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstUses(BTreeMap<u64, u32>);

impl FirstUses {
    /// None where an event says that a segment was taken. Segments in which something was live before the first event
    /// were there, too.
    pub(super) fn of(history: &History) -> Self {
        let ranges = &history.reserved;
        if history.quality.segment_contradictions > 0 || ranges.iter().any(|r| r.from != Moment::START) {
            return Self::default();
        }
        let around = |a: &Allocation| {
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

    /// The segment that the replay used where it parts from the recording, and that the recording first used later: its
    /// first byte, and the event.
    pub(super) fn used_later(&self, history: &History, divergence: Option<Divergence>) -> Option<(u64, u32)> {
        let Some(Divergence::Event { event, replayed: Some(at), .. }) = divergence else { return None };
        let (&address, &first_use) = self.0.range(..=at.address).next_back()?;
        let is_around = |r: &ReservedRange| r.address == address && at.address < r.end();
        let later = first_use as usize > event && history.reserved.iter().any(is_around);
        later.then_some((address, first_use))
    }

    pub(super) fn insert(&mut self, address: u64, event: u32) {
        self.0.insert(address, event);
    }

    /// The event with which the segment came that begins at `address`.
    pub(super) fn get(&self, address: u64) -> Option<u32> {
        self.0.get(&address).copied()
    }
}
