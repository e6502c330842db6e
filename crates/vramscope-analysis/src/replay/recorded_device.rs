//! A device that responds as recorded and detects requests that differ from the recording.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vramscope_engine::{
    AddressSpace, DEVICE_PAGE as PAGE, Device, DeviceError, EventId, MemoryInfo, VirtualMemory,
};
use vramscope_trace::{Action, PoolId, SegmentKind, Tags};

use super::capacity::Capacity;
use super::first_difference::{MemoryEvent, ReplayDifference};
use super::first_use::FirstUses;
use crate::history::{History, is_release, segment_events};

/// Assumed size of a device if the recording does not show it: 1 TiB.
const UNKNOWN_TOTAL: u64 = 1 << 40;

/// The device of a recording.
///
/// As long as the allocator does what was recorded, it gets the recorded addresses. Without a given capacity, the device is full
/// exactly where the next recorded event is a release. After the first difference, it returns the lowest free addresses, like
/// [`VirtualDevice`](vramscope_engine::VirtualDevice).
pub(super) struct RecordedDevice {
    capacity: Option<Capacity>,
    /// Size of the whole device. Without a given capacity, it only decides how many addresses an expandable segment reserves.
    total: u64,
    state: Mutex<Playback>,
}

struct Playback {
    /// All segment events, recorded or assumed.
    recorded: Vec<SegmentEvent>,
    /// The index of the next event.
    next: usize,
    /// The index of the first event after the current step.
    until: usize,
    /// Whether the current request fails in the recording.
    fails: bool,
    /// The memory that serves the current request.
    arena: Arena,
    first_difference: Option<ReplayDifference>,
    /// The event of the current step.
    event: usize,
    used: u64,
    space: AddressSpace,
    /// Ranges taken out of `space`: start address to size.
    booked: BTreeMap<u64, u64>,
    /// Addresses of expandable segments, as start and size, with the requests that they serve.
    reservations: Vec<(u64, u64, Arena)>,
}

/// The memory that a segment event or a request uses. Old recordings do not name the pool.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arena {
    pub(super) stream: u64,
    pub(super) pool: Option<PoolId>,
    pub(super) is_small: bool,
}

impl Arena {
    fn may_be(self, other: Self) -> bool {
        let same_pool = self.pool.is_none() || other.pool.is_none() || self.pool == other.pool;
        same_pool && (self.stream, self.is_small) == (other.stream, other.is_small)
    }
}

struct SegmentEvent {
    /// Its event, or that of the request that caused it.
    event: u32,
    happened: MemoryEvent,
    arena: Arena,
}

impl RecordedDevice {
    pub(super) fn new(history: &History, first_uses: &FirstUses, capacity: Option<Capacity>) -> Self {
        let mut recorded: Vec<SegmentEvent> = segment_events(history.device())
            .map(|(i, e)| {
                let Tags { stream, pool, .. } = history.trace().tags.get(e.tags);
                let is_small = history.policy.kind_of_segment(e.size) == SegmentKind::Small;
                SegmentEvent {
                    event: i as u32,
                    happened: MemoryEvent { action: e.action, address: e.address(), size: e.size },
                    arena: Arena { stream, pool, is_small },
                }
            })
            .collect();
        // If segments are assumed to be allocated at their first request, no such events were recorded.
        recorded.extend(history.reserved.iter().filter_map(|r| {
            let arena = Arena { stream: r.stream, pool: r.pool, is_small: r.kind == SegmentKind::Small };
            let happened = MemoryEvent { action: Action::SegmentAlloc, address: r.address, size: r.size };
            first_uses.get(r.address).map(|event| SegmentEvent { event, happened, arena })
        }));
        recorded.sort_by_key(|r| r.event);
        let base = recorded.iter().map(|r| r.happened.address).min().unwrap_or(PAGE);
        let state = Playback {
            recorded,
            next: 0,
            until: 0,
            fails: false,
            arena: Arena::default(),
            first_difference: None,
            event: 0,
            used: capacity.map_or(0, |c| c.overhead.min(c.total)),
            space: AddressSpace::from_base(base / PAGE * PAGE),
            booked: BTreeMap::new(),
            reservations: Vec::new(),
        };
        let total = capacity.map_or_else(|| shown_total(history, &state.recorded), |c| c.total);
        Self { capacity, total, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, Playback> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a range as in use before the first step. For an expandable segment, the range is that of its addresses, of which
    /// `used` bytes are mapped.
    pub(super) fn occupy(&self, address: u64, size: u64, used: u64) {
        let mut state = self.state();
        state.used = state.used.saturating_add(used);
        state.book(address, size);
    }

    /// Advances to the segment events up to `event`.
    pub(super) fn begin_step(&self, event: usize) {
        self.state().begin(event);
    }

    /// Like [`begin_step`](Self::begin_step), for a request of `arena`; `fails` says whether it fails in the recording.
    pub(super) fn begin_request(&self, event: usize, arena: Arena, fails: bool) {
        let mut state = self.state();
        state.begin(event);
        (state.arena, state.fails) = (arena, fails);
    }

    /// Ends the step; all its recorded events must have happened. Returns whether the recording is still followed.
    pub(super) fn end_step(&self) -> bool {
        let mut state = self.state();
        if let Some(recorded) = state.peek() {
            state.diverge(Some(recorded), None);
        }
        state.next = state.next.max(state.until);
        state.follows()
    }

    /// Records the first difference between the allocator and the recording.
    pub(super) fn diverge(&self, recorded: Option<MemoryEvent>, replayed: Option<MemoryEvent>) {
        self.state().diverge(recorded, replayed);
    }

    /// Whether the recording is still followed.
    pub(super) fn follows(&self) -> bool {
        self.state().first_difference.is_none()
    }

    pub(super) fn first_difference(&self) -> Option<ReplayDifference> {
        self.state().first_difference
    }

    /// Answers a call that takes `size` bytes of the device, recorded as `action`, at `address` if that is known. Returns the
    /// recorded address if the recording is followed.
    fn take(
        &self,
        state: &mut Playback,
        action: Action,
        address: Option<u64>,
        size: u64,
    ) -> Result<Option<u64>, DeviceError> {
        let bytes = size.checked_next_multiple_of(PAGE).ok_or(DeviceError::OutOfMemory { size })?;
        let has_room = self.capacity.is_none_or(|c| bytes <= c.total.saturating_sub(state.used));
        let next = state.peek();
        let matches = |h: &MemoryEvent| {
            h.action == action && h.size == size && address.is_none_or(|address| address == h.address)
        };
        let granted = next.filter(matches);
        let recorded_failure = match next {
            Some(h) => is_release(h.action),
            None => state.fails,
        };
        let wanted = MemoryEvent { action, address: address.unwrap_or(0), size };
        if !state.follows() {
            if !has_room {
                return Err(DeviceError::OutOfMemory { size });
            }
        } else if let Some(h) = granted.filter(|_| has_room) {
            state.next += 1;
            state.used = state.used.saturating_add(bytes);
            return Ok(Some(h.address));
        } else if recorded_failure && (self.capacity.is_none() || !has_room) {
            return Err(DeviceError::OutOfMemory { size });
        } else if has_room {
            state.diverge(next, Some(wanted));
        } else {
            state.diverge(next, None);
            return Err(DeviceError::OutOfMemory { size });
        }
        state.used = state.used.saturating_add(bytes);
        Ok(None)
    }

    fn give(&self, action: Action, address: u64, size: u64) -> MutexGuard<'_, Playback> {
        let mut state = self.state();
        let given = MemoryEvent { action, address, size };
        if state.follows() {
            match state.peek() {
                Some(next) if next == given => state.next += 1,
                next => state.diverge(next, Some(given)),
            }
        }
        let bytes = size.checked_next_multiple_of(PAGE).unwrap_or(size);
        state.used = state.used.saturating_sub(bytes);
        state
    }
}

/// Returns the device's size as far as expandable segments show it: each reserves addresses for nine eighths of the device, so
/// two of them start at least that far apart.
fn shown_total(history: &History, recorded: &[SegmentEvent]) -> u64 {
    let mut arenas: Vec<Arena> = Vec::new();
    let mut bases: Vec<u64> = Vec::new();
    for r in recorded.iter().filter(|r| r.happened.action == Action::SegmentMap) {
        // A few represent all.
        if arenas.len() < 64 && !arenas.contains(&r.arena) {
            arenas.push(r.arena);
            bases.push(r.happened.address);
        }
    }
    bases.sort_unstable();
    bases.dedup();
    if bases.len() < 2 {
        return UNKNOWN_TOTAL;
    }
    let totals = bases.windows(2).map(|pair| (pair[1] - pair[0]) / 9 * 8);
    // Segments that are closer took the place of others.
    let reserved = history.peaks().reserved.bytes;
    totals.filter(|&total| total >= reserved).min().unwrap_or(UNKNOWN_TOTAL).min(UNKNOWN_TOTAL)
}

impl Playback {
    fn follows(&self) -> bool {
        self.first_difference.is_none()
    }

    fn begin(&mut self, event: usize) {
        while self.recorded.get(self.until).is_some_and(|r| (r.event as usize) <= event) {
            self.until += 1;
        }
        (self.event, self.fails) = (event, false);
    }

    /// Returns the next recorded event in the current step.
    fn peek(&self) -> Option<MemoryEvent> {
        let next = self.recorded.get(self.next).filter(|_| self.next < self.until);
        next.map(|r| r.happened)
    }

    fn diverge(&mut self, recorded: Option<MemoryEvent>, replayed: Option<MemoryEvent>) {
        let event = self.event;
        self.first_difference.get_or_insert(ReplayDifference::Event { event, recorded, replayed });
    }

    fn book(&mut self, address: u64, size: u64) {
        let size = size.checked_next_multiple_of(PAGE).unwrap_or(size);
        if self.space.take_at(address, size) {
            self.booked.insert(address, size);
        }
    }

    fn place(&mut self, size: u64) -> Result<u64, DeviceError> {
        let size = size.checked_next_multiple_of(PAGE).ok_or(DeviceError::OutOfMemory { size })?;
        let address = self.space.take(size).ok_or(DeviceError::OutOfMemory { size })?;
        self.booked.insert(address, size);
        Ok(address)
    }

    fn unbook(&mut self, address: u64) {
        if let Some(size) = self.booked.remove(&address) {
            self.space.give_back(address, size);
        }
    }
}

impl Device for RecordedDevice {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        let mut state = self.state();
        match self.take(&mut state, Action::SegmentAlloc, None, size)? {
            Some(address) => {
                state.book(address, size);
                Ok(address)
            }
            None => state.place(size),
        }
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.give(Action::SegmentFree, address, size).unbook(address);
        Ok(())
    }

    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        Ok(MemoryInfo { free: self.total.saturating_sub(self.state().used), total: self.total })
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn record_event(&self, _: u64) -> Result<EventId, DeviceError> {
        Ok(EventId(0))
    }

    fn event_done(&self, _: EventId) -> Result<bool, DeviceError> {
        Ok(true)
    }

    fn synchronize(&self, _: EventId) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl VirtualMemory for RecordedDevice {
    /// A new expandable segment starts at the next address, outside the existing ones, at which the recording maps memory for the
    /// same requests.
    fn reserve(&self, size: u64) -> Result<u64, DeviceError> {
        let mut state = self.state();
        let arena = state.arena;
        let inside = |address: u64| {
            let same = state.reservations.iter().filter(|r| r.2 == arena);
            same.into_iter().any(|&(start, size, _)| address >= start && address - start < size)
        };
        let to_come = state.recorded.get(state.next..).unwrap_or_default().iter();
        let maps = to_come.filter(|r| r.happened.action == Action::SegmentMap && r.arena.may_be(arena));
        let base = maps.map(|r| r.happened.address).find(|&address| !inside(address));
        let base = match base.filter(|_| state.follows()) {
            Some(address) => {
                state.book(address, size);
                address
            }
            None => state.place(size)?,
        };
        state.reservations.push((base, size, arena));
        Ok(base)
    }

    fn release(&self, address: u64, _: u64) -> Result<(), DeviceError> {
        let mut state = self.state();
        state.reservations.retain(|r| r.0 != address);
        state.unbook(address);
        Ok(())
    }

    fn map(&self, address: u64, size: u64, _: u64) -> Result<(), DeviceError> {
        self.take(&mut self.state(), Action::SegmentMap, Some(address), size).map(drop)
    }

    fn unmap(&self, address: u64, size: u64, _: u64) -> Result<(), DeviceError> {
        drop(self.give(Action::SegmentUnmap, address, size));
        Ok(())
    }
}
