//! [`VirtualDevice`]: a device with addresses but without memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use vramscope_basics::lock;

use crate::address_space::AddressSpace;
use crate::device::{DEVICE_PAGE as PAGE, Device, DeviceError, EventId, MemoryInfo, VirtualMemory};

/// First address, below 2^47 like the addresses of the CUDA driver.
const BASE: u64 = 0x7f00_0000_0000;

/// A device that counts bytes and has no memory. Like the CUDA driver, it returns the lowest free addresses. It serves replays, tests,
/// and device sizes that the current machine does not have.
///
/// Work on a stream completes at once, unless a test delays it with [`set_busy`](Self::set_busy).
#[derive(Debug)]
pub struct VirtualDevice {
    capacity: u64,
    state: Mutex<DeviceState>,
}

#[derive(Debug)]
struct DeviceState {
    /// Used bytes, in whole pages.
    used: u64,
    /// Allocations and reserved ranges: first address to size in whole pages.
    ranges: BTreeMap<u64, Range>,
    addresses: AddressSpace,
    busy: BTreeSet<u64>,
    /// Events of streams that were busy when the event was recorded.
    waiting: BTreeMap<EventId, u64>,
    events: u64,
}

#[derive(Debug)]
struct Range {
    size: u64,
    /// Mapped parts of a reserved range: size by first address. `None` for an allocation.
    mapped: Option<BTreeMap<u64, u64>>,
}

impl VirtualDevice {
    /// Creates a device of `capacity` bytes. Each allocation uses whole pages of 2 MiB.
    pub fn with_capacity(capacity: u64) -> Self {
        let state = DeviceState {
            used: 0,
            ranges: BTreeMap::new(),
            addresses: AddressSpace::from_base(BASE),
            busy: BTreeSet::new(),
            waiting: BTreeMap::new(),
            events: 0,
        };
        Self { capacity, state: Mutex::new(state) }
    }

    /// Sets the `bytes` that other processes use from the start.
    #[must_use]
    pub fn with_used(self, bytes: u64) -> Self {
        lock(&self.state).used = bytes.min(self.capacity);
        self
    }

    /// Delays the work of `stream` if `busy` is true, otherwise lets it finish. An event recorded while the stream is busy completes
    /// when the work may finish or when a caller waits for it.
    pub fn set_busy(&self, stream: u64, busy: bool) {
        let mut state = lock(&self.state);
        if busy {
            state.busy.insert(stream);
        } else {
            state.busy.remove(&stream);
            state.waiting.retain(|_, s| *s != stream);
        }
    }
}

fn whole_pages(size: u64) -> Result<u64, DeviceError> {
    size.max(1).checked_next_multiple_of(PAGE).ok_or(DeviceError::OutOfMemory { size })
}

impl DeviceState {
    /// Takes the lowest free addresses.
    fn place(&mut self, size: u64, mapped: Option<BTreeMap<u64, u64>>) -> Result<u64, DeviceError> {
        let size = whole_pages(size)?;
        let address = self.addresses.take(size).ok_or(DeviceError::OutOfMemory { size })?;
        self.ranges.insert(address, Range { size, mapped });
        Ok(address)
    }

    fn give_back(&mut self, address: u64) {
        if let Some(range) = self.ranges.remove(&address) {
            self.addresses.give_back(address, range.size);
        }
    }

    /// Counts `size` bytes as used.
    fn take(&mut self, size: u64, capacity: u64) -> Result<(), DeviceError> {
        if size > capacity - self.used {
            return Err(DeviceError::OutOfMemory { size });
        }
        self.used += size;
        Ok(())
    }

    /// Returns the mapped parts of the reserved range that contains `address`.
    fn mapped(&mut self, address: u64, size: u64) -> Result<&mut BTreeMap<u64, u64>, DeviceError> {
        let unknown = DeviceError::UnknownAddress { address, size };
        let (&start, range) = self.ranges.range_mut(..=address).next_back().ok_or_else(|| unknown.clone())?;
        let inside = address - start <= range.size && size <= range.size - (address - start);
        range.mapped.as_mut().filter(|_| inside).ok_or(unknown)
    }
}

impl Device for VirtualDevice {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        let mut state = lock(&self.state);
        let pages = whole_pages(size)?;
        state.take(pages, self.capacity)?;
        state.place(pages, None).inspect_err(|_| state.used -= pages)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        match state.ranges.get(&address) {
            Some(&Range { mapped: None, size: taken }) => {
                state.used -= taken;
                state.give_back(address);
                Ok(())
            }
            _ => Err(DeviceError::UnknownAddress { address, size }),
        }
    }

    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        Ok(MemoryInfo { free: self.capacity - lock(&self.state).used, total: self.capacity })
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        lock(&self.state).waiting.clear();
        Ok(())
    }

    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        let mut state = lock(&self.state);
        state.events += 1;
        let event = EventId(state.events);
        if state.busy.contains(&stream) {
            state.waiting.insert(event, stream);
        }
        Ok(event)
    }

    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        Ok(!lock(&self.state).waiting.contains_key(&event))
    }

    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        lock(&self.state).waiting.remove(&event);
        Ok(())
    }

    fn wait_event(&self, _stream: u64, _event: EventId) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard_event(&self, event: EventId) -> Result<(), DeviceError> {
        lock(&self.state).waiting.remove(&event);
        Ok(())
    }
}

impl VirtualMemory for VirtualDevice {
    fn reserve(&self, size: u64) -> Result<u64, DeviceError> {
        lock(&self.state).place(size, Some(BTreeMap::new()))
    }

    fn release(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        match state.ranges.get(&address) {
            Some(Range { mapped: Some(pieces), .. }) if pieces.is_empty() => {
                state.give_back(address);
                Ok(())
            }
            _ => Err(DeviceError::UnknownAddress { address, size }),
        }
    }

    fn map(&self, address: u64, size: u64, _page: u64) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        let pieces = state.mapped(address, size)?;
        let before = pieces.range(..address + size).next_back();
        if before.is_some_and(|(&start, &length)| start + length > address) {
            return Err(DeviceError::Unsupported(format!("memory is already mapped at {address:#x}")));
        }
        state.take(size, self.capacity)?;
        state.mapped(address, size)?.insert(address, size);
        Ok(())
    }

    fn unmap(&self, address: u64, size: u64, _page: u64) -> Result<(), DeviceError> {
        let mut state = lock(&self.state);
        let pieces = state.mapped(address, size)?;
        let end = address + size;
        // The mapped parts may differ from the ranges that are unmapped.
        let (mut first, mut covered) = (None, 0);
        for (&start, &length) in pieces.range(..end).rev() {
            if start + length <= address {
                break;
            }
            covered += (start + length).min(end) - start.max(address);
            first = Some(start);
        }
        let Some(first) = first.filter(|_| covered == size) else {
            return Err(DeviceError::UnknownAddress { address, size });
        };
        let overlapping: Vec<(u64, u64)> = pieces.range(first..end).map(|(&s, &l)| (s, l)).collect();
        for (start, length) in overlapping {
            pieces.remove(&start);
            if start < address {
                pieces.insert(start, address - start);
            }
            if start + length > end {
                pieces.insert(end, start + length - end);
            }
        }
        state.used -= size;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_gap_that_is_large_enough_is_used_again() {
        let device = VirtualDevice::with_capacity(100 * PAGE);
        let [a, b, c] = [3, 1, 2].map(|pages| device.allocate(pages * PAGE).unwrap());
        assert_eq!([b, c], [a + 3 * PAGE, a + 4 * PAGE]);
        device.free(a, 3 * PAGE).unwrap();
        assert_eq!(device.allocate(4 * PAGE), Ok(c + 2 * PAGE));
        assert_eq!(device.allocate(2 * PAGE), Ok(a));
        assert_eq!(device.allocate(1), Ok(a + 2 * PAGE));
        assert_eq!(device.memory_info().unwrap().used(), 10 * PAGE);
    }

    #[test]
    fn pages_are_counted_when_they_are_mapped() {
        let device = VirtualDevice::with_capacity(4 * PAGE);
        let range = device.reserve(100 * PAGE).unwrap();
        device.map(range, 3 * PAGE, PAGE).unwrap();
        device.map(range + 3 * PAGE, PAGE, PAGE).unwrap();
        assert!(device.map(range, PAGE, PAGE).is_err());
        assert_eq!(device.map(range + 4 * PAGE, PAGE, PAGE), Err(DeviceError::OutOfMemory { size: PAGE }));
        assert!(device.release(range, 100 * PAGE).is_err());
        device.unmap(range + PAGE, 3 * PAGE, PAGE).unwrap();
        assert!(device.unmap(range + PAGE, PAGE, PAGE).is_err());
        assert_eq!(device.memory_info().unwrap().used(), PAGE);
        device.unmap(range, PAGE, PAGE).unwrap();
        device.release(range, 100 * PAGE).unwrap();
    }
}
