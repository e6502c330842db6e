//! A device that answers as the recording says, and notices where the allocator asks for something else.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vramscope_allocator::{AddressSpace, Device, DeviceError, EventId, MemoryInfo, VirtualMemory};
use vramscope_trace::{Action, Events};

use super::program::{is_growth, is_release};
use super::{Divergence, Happened};

/// The page to which a driver rounds what it gives: 2 MiB.
const PAGE: u64 = 2 << 20;

/// How large a device is taken for that the recording does not name: 1 TiB. It decides how many addresses an
/// expandable segment reserves, and nothing else.
const UNKNOWN_TOTAL: u64 = 1 << 40;

/// How large the replayed device is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The whole device.
    pub total: u64,
    /// What of it the allocator cannot have: contexts, other processes.
    pub overhead: u64,
}

/// The device of a recording.
///
/// As long as the allocator does what was recorded it gets the recorded addresses. Where no capacity is
/// given, the device is full exactly where the recording goes on to give memory back. From the first
/// difference on it gives the lowest free addresses, as [`VirtualDevice`](vramscope_allocator::VirtualDevice).
pub(super) struct RecordedDevice {
    capacity: Option<Capacity>,
    state: Mutex<State>,
}

struct State {
    /// Every segment event of the recording: its number and what happened.
    recorded: Vec<(u32, Happened)>,
    /// The next one.
    next: usize,
    /// Those of the present step.
    window: Range<usize>,
    /// The present request fails in the recording.
    fails: bool,
    divergence: Option<Divergence>,
    /// The event of the present step.
    event: usize,
    used: u64,
    space: AddressSpace,
    /// Ranges taken out of `space`: first address to size.
    booked: BTreeMap<u64, u64>,
}

impl RecordedDevice {
    pub(super) fn new(events: &Events, capacity: Option<Capacity>) -> Self {
        let is_ours = |a: Action| is_growth(a) || is_release(a);
        let numbers = events.actions().iter().enumerate().filter(|&(_, &a)| is_ours(a));
        let recorded: Vec<(u32, Happened)> = numbers
            .map(|(i, _)| {
                let e = events.get(i);
                (i as u32, Happened { action: e.action, address: e.address, size: e.size })
            })
            .collect();
        let base = recorded.iter().map(|(_, h)| h.address).min().unwrap_or(PAGE);
        let state = State {
            recorded,
            next: 0,
            window: 0..0,
            fails: false,
            divergence: None,
            event: 0,
            used: capacity.map_or(0, |c| c.overhead.min(c.total)),
            space: AddressSpace::from_base(base / PAGE * PAGE),
            booked: BTreeMap::new(),
        };
        Self { capacity, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A range lay on the device before the first step; of an expandable segment its addresses, of which
    /// `used` bytes are mapped.
    pub(super) fn occupy(&self, address: u64, size: u64, used: u64) {
        let mut state = self.state();
        state.used = state.used.saturating_add(used);
        state.book(address, size);
    }

    /// Follows the segment events before `event`, in which a request fails or not.
    pub(super) fn begin_step(&self, event: usize, fails: bool) {
        let mut state = self.state();
        let until = state.recorded.partition_point(|&(e, _)| (e as usize) < event);
        state.window = state.next..until;
        (state.event, state.fails) = (event, fails);
    }

    /// The step is over; what was recorded until it must have happened.
    pub(super) fn end_step(&self) {
        let mut state = self.state();
        if state.next < state.window.end && state.divergence.is_none() {
            let (event, recorded) = state.recorded[state.next];
            state.diverge_at(event as usize, Some(recorded), None);
        }
        state.next = state.next.max(state.window.end);
    }

    /// What the allocator did is not what was recorded.
    pub(super) fn diverge(&self, recorded: Option<Happened>, replayed: Option<Happened>) {
        self.state().diverge(recorded, replayed);
    }

    /// The recording is still followed.
    pub(super) fn follows(&self) -> bool {
        self.state().divergence.is_none()
    }

    pub(super) fn divergence(&self) -> Option<Divergence> {
        self.state().divergence
    }

    /// How the device answers a call that takes `bytes` of it, recorded as `action` of `size` bytes at
    /// `address`, if that is known. Returns the recorded address.
    fn take(
        &self,
        state: &mut State,
        action: Action,
        address: Option<u64>,
        size: u64,
    ) -> Result<Option<u64>, DeviceError> {
        let bytes = size.checked_next_multiple_of(PAGE).ok_or(DeviceError::OutOfMemory { size })?;
        let has_room = self.capacity.is_none_or(|c| bytes <= c.total.saturating_sub(state.used));
        let next = state.peek();
        let matches = |h: &Happened| {
            h.action == action && h.size == size && address.is_none_or(|address| address == h.address)
        };
        let granted = next.filter(matches);
        let recorded_failure = match next {
            Some(h) => is_release(h.action),
            None => state.fails,
        };
        let wanted = Happened { action, address: address.unwrap_or(0), size };
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

    fn give(&self, action: Action, address: u64, size: u64) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let given = Happened { action, address, size };
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

impl State {
    fn follows(&self) -> bool {
        self.divergence.is_none()
    }

    /// What comes next in the present step.
    fn peek(&self) -> Option<Happened> {
        let next = self.recorded.get(self.next).filter(|_| self.next < self.window.end);
        next.map(|&(_, happened)| happened)
    }

    fn diverge(&mut self, recorded: Option<Happened>, replayed: Option<Happened>) {
        self.diverge_at(self.event, recorded, replayed);
    }

    fn diverge_at(&mut self, event: usize, recorded: Option<Happened>, replayed: Option<Happened>) {
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::Event { event, recorded, replayed });
        }
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
        let total = self.capacity.map_or(UNKNOWN_TOTAL, |c| c.total);
        Ok(MemoryInfo { free: total.saturating_sub(self.state().used), total })
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
    /// A new expandable segment begins where memory is mapped next.
    fn reserve(&self, size: u64) -> Result<u64, DeviceError> {
        let mut state = self.state();
        let to_come = state.recorded.get(state.next..).unwrap_or_default();
        let map = to_come.iter().find(|(_, h)| h.action == Action::SegmentMap).map(|(_, h)| h.address);
        match map.filter(|_| state.follows()) {
            Some(address) => {
                state.book(address, size);
                Ok(address)
            }
            None => state.place(size),
        }
    }

    fn release(&self, address: u64, _: u64) -> Result<(), DeviceError> {
        self.state().unbook(address);
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
