//! Counters of the five kinds of bytes, exact although streams do not share a lock.
//!
//! The peak of a device is the highest value of a sum over its arenas, and each arena changes under a separate lock. To track every
//! peak without a common lock, each arena has a *ceiling* for its bytes. The sum of a device's ceilings never exceeds the highest sum
//! already seen:
//!
//! ```text
//!            arena 0        arena 1       arena 2
//!         [####------] + [######----] + [##--]   <= highest sum so far
//!           current^ceiling
//! ```
//!
//! While an arena stays below its ceiling, no new peak is possible, and it does not need the other arenas. A request that would exceed
//! the ceiling locks all arenas, adds up their bytes and redistributes the rest ([`Ledger::raise`]). In a program with repeating steps
//! this no longer happens after the first steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::policy::Class;

/// A counter over time: PyTorch's `Stat`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// Current bytes.
    pub current: u64,
    /// Highest number of bytes since the start, or since the peaks were reset.
    pub peak: u64,
    /// Sum of all bytes added so far.
    pub allocated: u64,
    /// Sum of all bytes subtracted so far.
    pub freed: u64,
}

/// Statistics of a device's pool: the five kinds of bytes, and counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Bytes requested by callers, over all active blocks (`requested_bytes` in PyTorch).
    pub requested: Stat,
    /// Bytes of allocated blocks, after rounding (`allocated_bytes`).
    pub allocated: Stat,
    /// Bytes of allocated blocks, and of freed blocks that wait for another stream (`active_bytes`).
    pub active: Stat,
    /// Bytes taken from the device (`reserved_bytes`).
    pub reserved: Stat,
    /// Bytes in use on the device by all processes. The device is queried whenever a segment is taken or released and whenever this is
    /// read. Changes between two queries are not counted.
    pub device_used: Stat,
    /// Number of blocks allocated so far.
    pub num_allocations: u64,
    /// Number of blocks freed by their owners so far.
    pub num_frees: u64,
    /// Number of free blocks in the cache.
    pub num_free_blocks: u64,
    /// Number of segments taken from the device so far, without ranges mapped into expandable segments (`segment.all.allocated` in
    /// PyTorch).
    pub segments_allocated: u64,
    /// Number of segments released so far (`segment.all.freed`).
    pub segments_freed: u64,
    /// Number of times memory was taken from the device: segments, and ranges mapped into expandable segments (`num_device_alloc`).
    pub num_device_alloc: u64,
    /// Number of times memory was released to the device (`num_device_free`).
    pub num_device_free: u64,
    /// Number of attempts after all cached blocks were released (`num_alloc_retries`).
    pub num_alloc_retries: u64,
    /// Number of requests that failed with out of memory (`num_ooms`).
    pub num_ooms: u64,
}

/// Peaks of the five kinds while a scope was open, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ScopePeaks {
    /// Bytes requested by callers, over all active blocks.
    pub requested: u64,
    /// Bytes of allocated blocks.
    pub allocated: u64,
    /// Bytes of blocks allocated or waiting for another stream.
    pub active: u64,
    /// Bytes taken from the device.
    pub reserved: u64,
    /// Bytes in use on the device by all processes, as far as the queries of the device show.
    pub device_used: u64,
}

/// The bytes of each kind at the peak of a scope's allocated bytes. The values of [`ScopePeaks`] may come from different points in time.
/// These values all come from the same one, so their differences are meaningful.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AtPeak {
    /// Bytes requested by callers, over all active blocks.
    pub requested: u64,
    /// Bytes of allocated blocks.
    pub allocated: u64,
    /// Bytes of blocks allocated or waiting for another stream.
    pub active: u64,
    /// Bytes taken from the device.
    pub reserved: u64,
    /// The [id](crate::Grant::id) of the allocation that reached the peak, or `None` if allocated bytes never exceeded their value at
    /// the start of the scope.
    pub allocation: Option<u64>,
}

impl AtPeak {
    /// Cached bytes at the peak: reserved but not active.
    pub fn inactive(&self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }
}

/// Number of byte kinds that an arena counts: requested, allocated and active, in this order.
const ARENA_KINDS: usize = 3;

/// Counters of one arena.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Current bytes of each kind.
    current: [u64; ARENA_KINDS],
    /// Bytes of each kind up to which no new peak of the device is possible; see the [module](self).
    ceiling: [u64; ARENA_KINDS],
    num_allocations: u64,
    /// Freed bytes and blocks by class. The bytes allocated so far are the freed bytes plus the current bytes.
    freed: [Freed; 2],
}

/// Totals of freed bytes and blocks of one class.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Freed {
    /// Bytes of each kind: requested, allocated, active.
    pub(crate) bytes: [u64; ARENA_KINDS],
    /// Number of freed blocks.
    pub(crate) num_frees: u64,
}

impl Tally {
    /// Returns the bytes of allocated blocks.
    pub(crate) fn allocated(&self) -> u64 {
        self.current[1]
    }

    /// Returns the bytes of blocks allocated or waiting for another stream.
    pub(crate) fn active(&self) -> u64 {
        self.current[2]
    }

    /// Totals of freed bytes and blocks of one class.
    pub(crate) fn freed(&self, class: Class) -> Freed {
        self.freed[class as usize]
    }

    /// Whether a block of `size` bytes for a request of `requested` bytes stays below the arena's ceilings, so that the other arenas
    /// are not needed.
    #[inline]
    pub(crate) fn has_room(&self, requested: u64, size: u64) -> bool {
        let [r, a, c] = self.current;
        r.saturating_add(requested) <= self.ceiling[0]
            && a.saturating_add(size) <= self.ceiling[1]
            && c.saturating_add(size) <= self.ceiling[2]
    }

    /// Counts a newly allocated block of `size` bytes for a request of `requested` bytes.
    #[inline]
    pub(crate) fn allocate(&mut self, requested: u64, size: u64) {
        self.current[0] += requested;
        self.current[1] += size;
        self.current[2] += size;
        self.num_allocations += 1;
    }

    /// Counts a block that was on the device before the engine began, freed by its owner but still in use on another stream.
    pub(crate) fn start_pending(&mut self, requested: u64, size: u64) {
        self.current[0] += requested;
        self.current[2] += size;
    }

    /// Counts a block that its owner freed.
    #[inline]
    pub(crate) fn free_requested(&mut self, class: Class, size: u64) {
        self.current[1] -= size;
        let freed = &mut self.freed[class as usize];
        freed.bytes[1] = freed.bytes[1].saturating_add(size);
        freed.num_frees += 1;
    }

    /// Counts a block that no stream uses any more, so that it is available again.
    #[inline]
    pub(crate) fn free_completed(&mut self, class: Class, requested: u64, size: u64) {
        let freed = &mut self.freed[class as usize];
        self.current[0] -= requested;
        freed.bytes[0] = freed.bytes[0].saturating_add(requested);
        self.current[2] -= size;
        freed.bytes[2] = freed.bytes[2].saturating_add(size);
    }
}

/// A count of bytes, segments or blocks over time. It changes under one lock, so its peak is exact.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    current: u64,
    high: u64,
    allocated: u64,
    freed: u64,
}

impl Meter {
    /// Returns the current value.
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.current += bytes;
        self.allocated = self.allocated.saturating_add(bytes);
        self.high = self.high.max(self.current);
    }

    pub(crate) fn subtract(&mut self, bytes: u64) {
        self.current -= bytes;
        self.freed = self.freed.saturating_add(bytes);
    }

    /// Adds a value from before the engine began, which does not count as allocated.
    pub(crate) fn start(&mut self, bytes: u64) {
        self.current += bytes;
        self.high = self.high.max(self.current);
    }

    /// Sum of all values added so far.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Sum of all values subtracted so far.
    pub(crate) fn freed(&self) -> u64 {
        self.freed
    }

    /// Returns the highest value since the start or the last [`reset_peak`](Self::reset_peak). For meters whose peaks no [`Ledger`]
    /// keeps.
    pub(crate) fn peak(&self) -> u64 {
        self.high
    }

    /// Resets the peak to the current value.
    pub(crate) fn reset_peak(&mut self) {
        self.high = self.current;
    }

    /// Sets the current value to a value read from the device. Counts the difference as added or subtracted.
    pub(crate) fn observe(&mut self, value: u64) {
        match value.checked_sub(self.current) {
            Some(rise) => self.add(rise),
            None => self.subtract(self.current - value),
        }
    }
}

/// Identifies a scope that tracks peaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScopeKey(usize);

/// The peaks of a device and of each open scope.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Highest sums of the arenas since the last fold.
    high: [u64; ARENA_KINDS],
    peaks: Kinds,
    scopes: Vec<Option<Scope>>,
}

/// The peaks since a scope was opened or restarted.
#[derive(Debug, Default)]
struct Scope {
    peaks: Kinds,
    at_peak: AtPeak,
    /// Id of the allocation in `at_peak`, or 0 if there is none. It can be read without a lock.
    highest: Arc<AtomicU64>,
}

/// One value for each kind.
type Kinds = [u64; ARENA_KINDS + 2];

impl Ledger {
    /// Makes room in `tallies[asking]` for `more` bytes of each kind. Raises the highest sums if these bytes exceed them, and divides
    /// the rest below the highest sums evenly among the arenas.
    pub(crate) fn raise(&mut self, tallies: &mut [&mut Tally], asking: usize, more: [u64; ARENA_KINDS]) {
        for (kind, need) in more.into_iter().enumerate() {
            let sum = tallies.iter().map(|t| t.current[kind]).sum::<u64>() + need;
            self.high[kind] = self.high[kind].max(sum);
            let left = self.high[kind] - sum;
            let share = left / tallies.len() as u64;
            for tally in tallies.iter_mut() {
                tally.ceiling[kind] = tally.current[kind] + share;
            }
            tallies[asking].ceiling[kind] += need + left % tallies.len() as u64;
        }
    }

    /// Records `allocation` in each scope whose allocated bytes have now reached a peak. Call this after [`raise`](Self::raise), once
    /// the request is served. No scope misses a new peak: opening a scope lowers all ceilings to the current values, so a request that
    /// exceeds them goes through `raise`.
    pub(crate) fn note_highest(&mut self, tallies: &[&mut Tally], reserved: u64, allocation: u64) {
        let sum = |kind: usize| tallies.iter().map(|t| t.current[kind]).sum::<u64>();
        let allocated = sum(1);
        let now =
            AtPeak { requested: sum(0), allocated, active: sum(2), reserved, allocation: Some(allocation) };
        for scope in self.scopes.iter_mut().flatten().filter(|scope| scope.at_peak.allocated < allocated) {
            scope.at_peak = now;
            scope.highest.store(allocation, Ordering::Relaxed);
        }
    }

    /// Whether a scope is open.
    pub(crate) fn has_scopes(&self) -> bool {
        self.scopes.iter().any(Option::is_some)
    }

    /// Returns the bytes of each kind at the peak of a scope's allocated bytes.
    pub(crate) fn at_peak(&self, scope: ScopeKey) -> AtPeak {
        self.scopes.get(scope.0).and_then(Option::as_ref).map(|scope| scope.at_peak).unwrap_or_default()
    }

    /// Returns the id of the allocation that reached the peak of a scope's allocated bytes, or 0. It changes with the peak.
    pub(crate) fn highest(&self, scope: ScopeKey) -> Arc<AtomicU64> {
        self.scopes.get(scope.0).and_then(Option::as_ref).map(|s| Arc::clone(&s.highest)).unwrap_or_default()
    }

    /// Returns the start values of a scope, right after a [`fold`](Self::fold).
    fn beginning(&self, reserved: u64) -> AtPeak {
        let [requested, allocated, active] = self.high;
        AtPeak { requested, allocated, active, reserved, allocation: None }
    }

    /// Merges the highest values so far into the peaks of the device and of every open scope, then restarts from the current values.
    fn fold(&mut self, tallies: &mut [&mut Tally], reserved: &mut Meter, device_used: &mut Meter) {
        let [r, a, c] = self.high;
        let high = [r, a, c, reserved.high, device_used.high];
        let scopes = self.scopes.iter_mut().flatten().map(|scope| &mut scope.peaks);
        for peaks in scopes.chain([&mut self.peaks]) {
            for (peak, high) in peaks.iter_mut().zip(high) {
                *peak = (*peak).max(high);
            }
        }
        for kind in 0..ARENA_KINDS {
            self.high[kind] = tallies.iter().map(|t| t.current[kind]).sum();
            for tally in tallies.iter_mut() {
                tally.ceiling[kind] = tally.current[kind];
            }
        }
        reserved.high = reserved.current;
        device_used.high = device_used.current;
    }

    /// Resets the device's peaks. Scopes keep theirs.
    pub(crate) fn reset_peaks(
        &mut self,
        t: &mut [&mut Tally],
        reserved: &mut Meter,
        device_used: &mut Meter,
    ) {
        self.fold(t, reserved, device_used);
        self.peaks = Kinds::default();
    }

    /// Opens a scope, which tracks peaks from now on.
    pub(crate) fn open(
        &mut self,
        tallies: &mut [&mut Tally],
        reserved: &mut Meter,
        device_used: &mut Meter,
    ) -> ScopeKey {
        self.fold(tallies, reserved, device_used);
        let vacant = self.scopes.iter().position(Option::is_none).unwrap_or(self.scopes.len());
        if vacant == self.scopes.len() {
            self.scopes.push(None);
        }
        let at_peak = self.beginning(reserved.current);
        self.scopes[vacant] = Some(Scope { at_peak, ..Scope::default() });
        ScopeKey(vacant)
    }

    /// Returns the peaks of a scope so far.
    pub(crate) fn scope(
        &mut self,
        scope: ScopeKey,
        tallies: &mut [&mut Tally],
        reserved: &mut Meter,
        device_used: &mut Meter,
    ) -> ScopePeaks {
        self.fold(tallies, reserved, device_used);
        // Include the current values, because nothing may have changed since the scope was opened.
        let now = [self.high[0], self.high[1], self.high[2], reserved.current, device_used.current];
        let seen = self.scopes.get(scope.0).and_then(Option::as_ref).map(|s| s.peaks).unwrap_or_default();
        let [requested, allocated, active, reserved, device_used]: Kinds =
            std::array::from_fn(|kind| seen[kind].max(now[kind]));
        ScopePeaks { requested, allocated, active, reserved, device_used }
    }

    /// Restarts a scope, right after its [peaks](Self::scope) were read.
    pub(crate) fn restart(&mut self, scope: ScopeKey, reserved: u64) {
        let at_peak = self.beginning(reserved);
        if let Some(Some(scope)) = self.scopes.get_mut(scope.0) {
            scope.peaks = Kinds::default();
            scope.at_peak = at_peak;
            scope.highest.store(0, Ordering::Relaxed);
        }
    }

    /// Closes a scope. A new scope may reuse its key.
    pub(crate) fn close(&mut self, scope: ScopeKey) {
        if let Some(slot) = self.scopes.get_mut(scope.0) {
            *slot = None;
        }
    }

    /// Returns the five kinds of bytes over all arenas.
    pub(crate) fn statistics(
        &self,
        tallies: &[&mut Tally],
        reserved: &Meter,
        device_used: &Meter,
    ) -> Statistics {
        let arenas = |kind: usize| {
            let current = tallies.iter().map(|t| t.current[kind]).sum::<u64>();
            let freed = tallies.iter().flat_map(|t| &t.freed);
            let freed = freed.fold(0u64, |sum, freed| sum.saturating_add(freed.bytes[kind]));
            let peak = self.peaks[kind].max(self.high[kind]);
            Stat { current, peak, allocated: current.saturating_add(freed), freed }
        };
        let meter = |kind: usize, m: &Meter| Stat {
            current: m.current,
            peak: self.peaks[kind].max(m.high),
            allocated: m.allocated,
            freed: m.freed,
        };
        Statistics {
            requested: arenas(0),
            allocated: arenas(1),
            active: arenas(2),
            reserved: meter(ARENA_KINDS, reserved),
            device_used: meter(ARENA_KINDS + 1, device_used),
            num_allocations: tallies.iter().map(|t| t.num_allocations).sum(),
            num_frees: tallies.iter().flat_map(|t| &t.freed).map(|freed| freed.num_frees).sum(),
            ..Statistics::default()
        }
    }
}
