//! Segments whose events were left out, taken for coming when they were first used.

use std::collections::BTreeMap;

use crate::history::{History, Origin};
use crate::moment::Moment;

/// When each segment came, by its first byte: with the event of the first allocation in it.
///
/// A recording without any segment event may have begun when all its segments were there, or they were taken while it
/// was made and nobody wrote that down. The allocator tells which: it serves a request from the free block that fits
/// best, and a segment that was there before would have served others. Segments of expandable memory are grown in
/// place, which serves the same requests either way, and are left out here.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstUses(BTreeMap<u64, u32>);

impl FirstUses {
    /// None where segment events were recorded, and where something was live before the first event.
    pub(super) fn of(history: &History<'_>) -> Self {
        let ranges = &history.reserved;
        let is_whole = ranges.iter().all(|r| r.from == Moment::START && r.to == Moment::NEVER);
        if !is_whole || history.quality.preexisting > 0 {
            return Self::default();
        }
        let mut uses = BTreeMap::new();
        for a in history.allocations.iter().filter(|a| a.origin == Origin::Recorded) {
            let before = ranges.partition_point(|r| r.address <= a.address).checked_sub(1);
            let range = before.map(|i| &ranges[i]).filter(|r| a.address < r.end() && !r.expandable);
            if let Some((range, event)) = range.zip(a.from.event()) {
                uses.entry(range.address).or_insert(event as u32);
            }
        }
        Self(uses)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The event with which the segment came that begins at `address`.
    pub(super) fn get(&self, address: u64) -> Option<u32> {
        self.0.get(&address).copied()
    }
}
