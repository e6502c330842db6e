//! Bytes of five kinds, counted exactly though streams do not share a lock.
//!
//! The peak of a device is the highest value of a sum over its arenas, each of which changes under a lock of
//! its own. To see every peak without a lock in common, each arena has a *ceiling* for its own bytes, such
//! that the ceilings of a device add up to no more than the highest sum already seen:
//!
//! ```text
//!            arena 0        arena 1       arena 2
//!         [####------] + [######----] + [##--]   <= highest sum so far
//!           current^ceiling
//! ```
//!
//! While an arena stays below its ceiling no new peak is possible, and it asks nobody. A request that would
//! pass the ceiling locks all arenas, counts, and divides what is left anew ([`Ledger::raise`]). After the
//! first rounds of a program that repeats itself this no longer happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::policy::Class;

/// Bytes of one kind over time: PyTorch's `Stat`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// Bytes now.
    pub current: u64,
    /// The highest number of bytes since the beginning, or since peaks were reset.
    pub peak: u64,
    /// The sum of all bytes that were ever added.
    pub allocated: u64,
    /// The sum of all bytes that were ever subtracted.
    pub freed: u64,
}

/// What a device's pool holds, in bytes of the five kinds and in counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Bytes that callers asked for, of all active blocks (`requested_bytes` of PyTorch).
    pub requested: Stat,
    /// Bytes of blocks handed out, after rounding (`allocated_bytes`).
    pub allocated: Stat,
    /// Bytes of blocks handed out, and of blocks that were freed and wait for another stream (`active_bytes`).
    pub active: Stat,
    /// Bytes taken from the device (`reserved_bytes`).
    pub reserved: Stat,
    /// Bytes in use on the device by anyone. The device is asked whenever a segment is taken or given back and whenever this is
    /// read; a rise and fall between two such moments is not seen.
    pub device_used: Stat,
    /// The number of blocks handed out so far.
    pub num_allocations: u64,
    /// The number of blocks freed by their owners so far.
    pub num_frees: u64,
    /// The number of free blocks in the cache.
    pub num_free_blocks: u64,
    /// The number of segments taken from the device so far. Ranges mapped into expandable segments do not count
    /// (`segment.all.allocated` of PyTorch).
    pub segments_allocated: u64,
    /// The number of segments given back so far (`segment.all.freed`).
    pub segments_freed: u64,
    /// How many times memory was taken from the device: segments, and ranges mapped into expandable ones (`num_device_alloc`).
    pub num_device_alloc: u64,
    /// How many times memory was given back to the device (`num_device_free`).
    pub num_device_free: u64,
    /// The number of attempts after all cached blocks had been given back (`num_alloc_retries`).
    pub num_alloc_retries: u64,
    /// The number of requests that failed because there was no memory left (`num_ooms`).
    pub num_ooms: u64,
}

/// The highest values of the five kinds while a scope was open, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Peaks {
    /// Bytes that callers asked for, of all active blocks.
    pub requested: u64,
    /// Bytes of blocks handed out.
    pub allocated: u64,
    /// Bytes of blocks handed out, or waiting for another stream.
    pub active: u64,
    /// Bytes taken from the device.
    pub reserved: u64,
    /// Bytes in use on the device by anyone, at the moments at which the device was asked.
    pub device_used: u64,
}

/// What was in use at the one moment at which a scope's allocated bytes were highest, in bytes. The numbers of [`Peaks`]
/// may each be of another moment; these are all of the same one, so that their differences mean something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AtPeak {
    /// Bytes that callers had asked for, of all active blocks.
    pub requested: u64,
    /// Bytes of blocks handed out.
    pub allocated: u64,
    /// Bytes of blocks handed out, or waiting for another stream.
    pub active: u64,
    /// Bytes taken from the device.
    pub reserved: u64,
    /// The [id](crate::Grant::id) of the allocation that reached the peak; `None` where nothing since the beginning of
    /// the scope rose above what was allocated then.
    pub allocation: Option<u64>,
}

impl AtPeak {
    /// Bytes that were cached then: reserved and not active.
    pub fn inactive(&self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }
}

/// How many kinds of bytes an arena counts: requested, allocated and active, in this order.
const ARENA_KINDS: usize = 3;

/// What one arena counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Bytes of each kind now.
    current: [u64; ARENA_KINDS],
    /// Bytes of each kind up to which no peak of the device is possible; see the [module](self).
    ceiling: [u64; ARENA_KINDS],
    num_allocations: u64,
    /// What was freed, by class. What was ever allocated follows: it was freed, or its blocks are still there.
    freed: [Freed; 2],
}

/// What was ever freed of the blocks of one class.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Freed {
    /// Bytes of each kind: requested, allocated, active.
    pub(crate) bytes: [u64; ARENA_KINDS],
    /// Blocks given back.
    pub(crate) num_frees: u64,
}

impl Tally {
    /// Bytes of blocks handed out.
    pub(crate) fn allocated(&self) -> u64 {
        self.current[1]
    }

    /// Bytes of blocks handed out, or waiting for another stream.
    pub(crate) fn active(&self) -> u64 {
        self.current[2]
    }

    /// What was ever freed of the blocks of one class.
    pub(crate) fn freed(&self, class: Class) -> Freed {
        self.freed[class as usize]
    }

    /// Whether a block of `size` bytes for a request of `requested` bytes stays below the arena's ceilings, so that the
    /// other arenas need not be asked.
    #[inline]
    pub(crate) fn has_room(&self, requested: u64, size: u64) -> bool {
        let [r, a, c] = self.current;
        r.saturating_add(requested) <= self.ceiling[0]
            && a.saturating_add(size) <= self.ceiling[1]
            && c.saturating_add(size) <= self.ceiling[2]
    }

    /// Counts a block of `size` bytes that is handed out for a request of `requested` bytes.
    #[inline]
    pub(crate) fn allocate(&mut self, requested: u64, size: u64) {
        self.current[0] += requested;
        self.current[1] += size;
        self.current[2] += size;
        self.num_allocations += 1;
    }

    /// Counts a block that was in place before the engine began, freed by its owner and still in use by another stream.
    pub(crate) fn start_pending(&mut self, requested: u64, size: u64) {
        self.current[0] += requested;
        self.current[2] += size;
    }

    /// Counts a block whose owner gave it back.
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

/// A number of bytes, segments or blocks over time. It changes under one lock, so that its peak is exact by itself.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    current: u64,
    high: u64,
    allocated: u64,
    freed: u64,
}

impl Meter {
    /// The value now.
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

    /// Adds what was in place before the engine began, and does not count as allocated.
    pub(crate) fn start(&mut self, bytes: u64) {
        self.current += bytes;
        self.high = self.high.max(self.current);
    }

    /// The sum of all that was ever added.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// The sum of all that was ever subtracted.
    pub(crate) fn freed(&self) -> u64 {
        self.freed
    }

    /// The highest value since the beginning or the last [`reset_peak`](Self::reset_peak). For meters whose peaks no
    /// [`Ledger`] keeps.
    pub(crate) fn peak(&self) -> u64 {
        self.high
    }

    /// Begins the peak anew from the current value.
    pub(crate) fn reset_peak(&mut self) {
        self.high = self.current;
    }

    /// Sets the current value to one that was read from the device, counting the difference as added or subtracted.
    pub(crate) fn observe(&mut self, value: u64) {
        match value.checked_sub(self.current) {
            Some(rise) => self.add(rise),
            None => self.subtract(self.current - value),
        }
    }
}

/// Names a scope in which peaks are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScopeKey(usize);

/// The peaks of a device, and of each open scope.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The highest sums of the arenas since the last fold.
    high: [u64; ARENA_KINDS],
    peaks: Kinds,
    scopes: Vec<Option<Scope>>,
}

/// The peaks since a scope was opened or restarted.
#[derive(Debug, Default)]
struct Scope {
    peaks: Kinds,
    at_peak: AtPeak,
    /// The id of the allocation in `at_peak`, or 0 where there is none; it can be read without a lock.
    highest: Arc<AtomicU64>,
}

/// One value of each kind.
type Kinds = [u64; ARENA_KINDS + 2];

impl Ledger {
    /// Makes room in `tallies[asking]` for `more` bytes of each kind, raises the highest sums where those bytes exceed
    /// them, and divides what is left below the highest sums evenly among the arenas.
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

    /// To be called after [`raise`](Self::raise), when the request was served as `allocation`: notes it in each scope whose
    /// allocated bytes were never higher. No scope misses a new peak, for opening a scope lowers all ceilings to the
    /// current values, so that a request which exceeds them comes through `raise`.
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

    /// What was in use when a scope's allocated bytes were highest.
    pub(crate) fn at_peak(&self, scope: ScopeKey) -> AtPeak {
        self.scopes.get(scope.0).and_then(Option::as_ref).map(|scope| scope.at_peak).unwrap_or_default()
    }

    /// The id of the allocation with which a scope's allocated bytes reached their peak, or 0; it changes with the peak.
    pub(crate) fn highest(&self, scope: ScopeKey) -> Arc<AtomicU64> {
        self.scopes.get(scope.0).and_then(Option::as_ref).map(|s| Arc::clone(&s.highest)).unwrap_or_default()
    }

    /// The values that a scope begins with, right after a [`fold`](Self::fold).
    fn beginning(&self, reserved: u64) -> AtPeak {
        let [requested, allocated, active] = self.high;
        AtPeak { requested, allocated, active, reserved, allocation: None }
    }

    /// Takes the highest values seen so far into the peaks of the device and of every open scope, and begins anew from
    /// the current values.
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

    /// Begins the device's peaks anew; scopes keep theirs.
    pub(crate) fn reset_peaks(
        &mut self,
        t: &mut [&mut Tally],
        reserved: &mut Meter,
        device_used: &mut Meter,
    ) {
        self.fold(t, reserved, device_used);
        self.peaks = Kinds::default();
    }

    /// Begins a scope: its peaks are those from here on.
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

    /// The peaks of a scope so far.
    pub(crate) fn scope(
        &mut self,
        scope: ScopeKey,
        tallies: &mut [&mut Tally],
        reserved: &mut Meter,
        device_used: &mut Meter,
    ) -> Peaks {
        self.fold(tallies, reserved, device_used);
        // The current values count too, for nothing need have changed since the scope was opened.
        let now = [self.high[0], self.high[1], self.high[2], reserved.current, device_used.current];
        let seen = self.scopes.get(scope.0).and_then(Option::as_ref).map(|s| s.peaks).unwrap_or_default();
        let [requested, allocated, active, reserved, device_used]: Kinds =
            std::array::from_fn(|kind| seen[kind].max(now[kind]));
        Peaks { requested, allocated, active, reserved, device_used }
    }

    /// Begins a scope anew, right after its [peaks](Self::scope) were read.
    pub(crate) fn restart(&mut self, scope: ScopeKey, reserved: u64) {
        let at_peak = self.beginning(reserved);
        if let Some(Some(scope)) = self.scopes.get_mut(scope.0) {
            scope.peaks = Kinds::default();
            scope.at_peak = at_peak;
            scope.highest.store(0, Ordering::Relaxed);
        }
    }

    /// Ends a scope, whose key another may get.
    pub(crate) fn close(&mut self, scope: ScopeKey) {
        if let Some(slot) = self.scopes.get_mut(scope.0) {
            *slot = None;
        }
    }

    /// The five kinds over all arenas.
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
