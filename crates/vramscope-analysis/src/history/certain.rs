//! The bytes that a damaged recording shows for certain.

use super::allocations::{History, Origin, RecordedAllocation};
use super::moment::Moment;

/// The highest allocated and reserved bytes of a recording that are certain although events are missing in a gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CertainPeaks {
    pub(crate) allocated: u64,
    pub(crate) reserved: u64,
}

impl History {
    /// Returns the peaks without memory that a missing event may have freed, or may have allocated only later. Memory is certain
    ///
    /// - from its recorded allocation to its free or to the gap, whichever is first,
    /// - and from the gap to its recorded free, because there is no free without an allocation.
    pub(crate) fn certain_peaks(&self) -> CertainPeaks {
        let Some(gap) = &self.device().gap else { return CertainPeaks::default() };
        let gap = (Moment::from_index(gap.start), Moment::from_index(gap.end));
        let mut allocated = Sweep::new(self.device().events.len());
        for (number, a) in self.allocations.iter().enumerate() {
            let is_freed = a.freed.event().is_some_and(|event| self.frees(number, event));
            let is_made = a.origin == Origin::Recorded || self.starts_with(a);
            allocated.add(a.size, a.from, a.freed, gap, (is_made, is_freed));
        }
        let mut reserved = Sweep::new(self.device().events.len());
        for range in &self.reserved {
            reserved.add(range.size, range.from, range.to, gap, (range.from > Moment::START, false));
        }
        CertainPeaks { allocated: allocated.highest(), reserved: reserved.highest() }
    }

    /// Whether an event frees this allocation, and has its size.
    fn frees(&self, number: usize, event: usize) -> bool {
        let events = &self.device().events;
        event < events.len()
            && self.subject_number(event) == Some(number)
            && events.get(event).size == self.allocations[number].requested
    }

    /// Whether an allocation that no event mentions is a block of the state at the start.
    fn starts_with(&self, a: &RecordedAllocation) -> bool {
        a.origin == Origin::EndState && a.from == Moment::START && a.freed == Moment::NEVER
    }
}

/// Bytes that begin and end at moments.
struct Sweep(Vec<i128>);

impl Sweep {
    fn new(events: usize) -> Self {
        Self(vec![0; events + 2])
    }

    /// Adds the certain parts of a lifetime. `(is_made, is_freed)` is whether events show its beginning and its end.
    fn add(
        &mut self,
        size: u64,
        from: Moment,
        to: Moment,
        (first, last): (Moment, Moment),
        (is_made, is_freed): (bool, bool),
    ) {
        if from > last || to <= first {
            return self.between(size, from.index(), to.index());
        }
        if is_made {
            self.between(size, from.index(), first.index() + 1);
        }
        if is_freed {
            self.between(size, last.index() + 1, to.index());
        }
    }

    /// Adds bytes at the moments `from..to`.
    fn between(&mut self, size: u64, from: usize, to: usize) {
        let end = self.0.len() - 1;
        let (from, to) = (from.min(end), to.min(end));
        if from < to {
            self.0[from] += i128::from(size);
            self.0[to] -= i128::from(size);
        }
    }

    fn highest(self) -> u64 {
        let mut bytes = 0;
        let highest = self.0.into_iter().map(|change| {
            bytes += change;
            bytes
        });
        u64::try_from(highest.max().unwrap_or(0)).unwrap_or(0)
    }
}
