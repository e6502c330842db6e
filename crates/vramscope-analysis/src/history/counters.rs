//! The byte counters over time.

use vramscope_basics::count_steps;

use super::allocations::{History, RecordedAllocation};
use super::lifetime_changes::{LifetimeChange, LifetimeChanges};
use super::moment::Moment;

/// Four of the five kinds of bytes at one moment. The fifth, device used, includes other processes and comes from the driver; it
/// is recorded only with an out-of-memory event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that callers requested, over all active blocks: PyTorch's `requested_bytes`.
    pub requested: u64,
    /// Bytes of the allocated blocks, after rounding.
    pub allocated: u64,
    /// Bytes of the allocated blocks and of freed blocks that another stream still uses.
    pub active: u64,
    /// Bytes of the allocator's segments.
    pub reserved: u64,
}

/// The peak of a counter, and its first moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    /// The peak, in bytes.
    pub bytes: u64,
    /// The first moment at which the counter reached the peak.
    pub moment: Moment,
}

/// The peak of each counter, each at its own moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peaks {
    /// The peak of [`Counters::requested`].
    pub requested: Peak,
    /// The peak of [`Counters::allocated`].
    pub allocated: Peak,
    /// The peak of [`Counters::active`].
    pub active: Peak,
    /// The peak of [`Counters::reserved`].
    pub reserved: Peak,
}

impl Default for Peaks {
    fn default() -> Self {
        let start = Peak { bytes: 0, moment: Moment::START };
        Self { requested: start, allocated: start, active: start, reserved: start }
    }
}

impl Peaks {
    /// Updates the peaks with the counters at the next moment.
    #[inline]
    pub(crate) fn see(&mut self, moment: Moment, c: Counters) {
        let raise = |peak: &mut Peak, bytes| {
            if bytes > peak.bytes {
                *peak = Peak { bytes, moment };
            }
        };
        raise(&mut self.requested, c.requested);
        raise(&mut self.allocated, c.allocated);
        raise(&mut self.active, c.active);
        raise(&mut self.reserved, c.reserved);
    }
}

/// An iterator over the counters at each moment of a history, from [`Moment::START`] to the end.
pub struct Walk<'h> {
    history: &'h History,
    /// Number of events of the history.
    events: usize,
    now: Counters,
    next: usize,
    unrecorded: usize,
    /// The changes of reserved bytes.
    reserved: LifetimeChanges<u64>,
}

impl History {
    /// Returns the counters at every moment, in order, starting before the first event.
    pub fn walk(&self) -> Walk<'_> {
        let mut now = Counters::default();
        for a in self.allocations.iter().filter(|a| a.from == Moment::START) {
            now.active += a.size;
            now.requested += a.requested;
            if a.freed > Moment::START {
                now.allocated += a.size;
            }
        }
        let reserved = LifetimeChanges::of(self.reserved.iter().map(|r| (r.from, r.to, r.size)));
        let events = self.device().events.len();
        count_steps(events);
        let mut walk = Walk { history: self, events, now, next: 0, unrecorded: 0, reserved };
        walk.reserve_until(Moment::START);
        walk
    }

    /// Returns the peaks over the whole recording.
    pub fn peaks(&self) -> Peaks {
        let mut peaks = Peaks::default();
        for (moment, counters) in self.walk() {
            peaks.see(moment, counters);
        }
        peaks
    }

    /// Returns the counters at one moment.
    pub fn counters_at(&self, moment: Moment) -> Counters {
        let mut c = Counters::default();
        for a in self.allocations.iter().filter(|a| a.is_active_at(moment)) {
            c.active += a.size;
            c.requested += a.requested;
            if a.is_allocated_at(moment) {
                c.allocated += a.size;
            }
        }
        c.reserved = self.reserved_at(moment);
        c
    }

    /// Returns the reserved bytes at `moment`.
    pub(crate) fn reserved_at(&self, moment: Moment) -> u64 {
        self.reserved.iter().filter(|r| r.lives_at(moment)).map(|r| r.size).sum()
    }
}

impl Walk<'_> {
    /// Applies the changes of reserved bytes up to `now`.
    #[inline]
    fn reserve_until(&mut self, now: Moment) {
        while let Some((change, size)) = self.reserved.next_until(now) {
            match change {
                LifetimeChange::Begins => self.now.reserved += size,
                LifetimeChange::Ends => self.now.reserved -= size,
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = (Moment, Counters);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == 0 {
            self.next = 1;
            return Some((Moment::START, self.now));
        }
        let event = self.next - 1;
        let history = self.history;
        if event >= self.events {
            return None;
        }
        self.next += 1;
        let now = Moment::after(event);
        history.each_changing_at(now, &mut self.unrecorded, |a| self.now.change(a, now));
        self.reserve_until(now);
        Some((now, self.now))
    }
}

impl Counters {
    /// Applies the begin, free or end of `a` at the moment `now`.
    #[inline]
    fn change(&mut self, a: &RecordedAllocation, now: Moment) {
        if a.from == now {
            self.active += a.size;
            self.allocated += a.size;
            self.requested += a.requested;
        }
        if a.freed == now {
            self.allocated -= a.size;
        }
        if a.to == now {
            self.active -= a.size;
            self.requested -= a.requested;
        }
    }
}
