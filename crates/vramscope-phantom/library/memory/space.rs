//! The address space of the devices.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::OnceLock;

use vramscope_bare::sys;

use super::PAGE;
use crate::state::DEVICES;

/// Start of the first device's addresses, if they are free. A fixed start makes runs reproducible.
const FIRST: u64 = 16 << 40;

/// Addresses per device. With expandable segments, PyTorch reserves more than a whole GPU for each stream.
const PER_DEVICE: u64 = 4 << 40;

/// Start of all device addresses; 0 if the system refused the reservation.
fn first() -> u64 {
    static FIRST_ADDRESS: OnceLock<u64> = OnceLock::new();
    *FIRST_ADDRESS.get_or_init(|| {
        let length = (PER_DEVICE * DEVICES as u64) as usize;
        let map = |at: u64, flag| {
            let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | flag;
            let at = std::ptr::without_provenance_mut(at as usize);
            // SAFETY: a new mapping that replaces no other.
            unsafe { sys::mmap(at, length, sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0) }
        };
        let mut at = map(FIRST, sys::MAP_FIXED_NOREPLACE);
        if at.addr() == usize::MAX {
            at = map(0, 0);
        }
        if at.addr() == usize::MAX {
            crate::machine::say(
                "cannot reserve addresses for device memory; check the address space limit (`ulimit -v`)",
            );
            return 0;
        }
        // SAFETY: the mapping made above. Core files leave it out, so they stay small.
        unsafe { sys::madvise(at, length, sys::MADV_DONTDUMP) };
        at.expose_provenance() as u64
    })
}

/// The device that an address belongs to.
pub(crate) fn device_of(address: u64) -> Option<usize> {
    let device = address.checked_sub(first())? / PER_DEVICE;
    (first() != 0 && device < DEVICES as u64).then_some(device as usize)
}

/// Converts an address to a pointer.
pub(crate) fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Returns whole pages of device memory to the operating system. They read as zeros again.
pub(crate) fn give_pages_back(address: u64, size: u64) {
    let from = address.next_multiple_of(PAGE);
    let to = (address + size) / PAGE * PAGE;
    if from < to && device_of(address).is_some() {
        // SAFETY: whole pages of the device mapping, which the caller owns.
        unsafe { sys::madvise(pointer(from), (to - from) as usize, sys::MADV_DONTNEED) };
    }
}

/// Free addresses.
pub(crate) struct Space {
    /// Ranges of free addresses: start to bytes.
    free: BTreeMap<u64, u64>,
}

impl Space {
    /// A range of free addresses.
    pub(super) fn new(start: u64, bytes: u64) -> Self {
        Self { free: BTreeMap::from([(start, bytes)]) }
    }

    /// All addresses of a device.
    pub(crate) fn of_device(device: usize) -> Self {
        match first() {
            0 => Self { free: BTreeMap::new() },
            first => Self::new(first + PER_DEVICE * device as u64, PER_DEVICE),
        }
    }

    /// Whether no addresses are free.
    pub(super) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether all addresses of a range are free, and none beside it.
    pub(super) fn has_all(&self, start: u64, bytes: u64) -> bool {
        self.free.len() == 1 && self.free.get(&start) == Some(&bytes)
    }

    /// Takes `size` bytes of addresses at a multiple of `alignment`, at the lowest possible address.
    pub(crate) fn take(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let fits = |(&start, &length): (&u64, &u64)| {
            let address = start.checked_next_multiple_of(alignment)?;
            (address - start)
                .checked_add(size)
                .filter(|&needed| needed <= length)
                .map(|_| (start, length, address))
        };
        let (start, length, address) = self.free.iter().find_map(fits)?;
        self.cut(start, length, address, size);
        Some(address)
    }

    /// Like [`take`](Self::take), at the highest possible address.
    pub(super) fn take_highest(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let fits = |(&start, &length): (&u64, &u64)| {
            let last = length.checked_sub(size)? + start;
            let address = last - last % alignment;
            (address >= start).then_some((start, length, address))
        };
        let (start, length, address) = self.free.iter().rev().find_map(fits)?;
        self.cut(start, length, address, size);
        Some(address)
    }

    /// Removes `size` bytes at `address` from a free range.
    fn cut(&mut self, start: u64, length: u64, address: u64, size: u64) {
        self.free.remove(&start);
        if address > start {
            self.free.insert(start, address - start);
        }
        let (end, taken_end) = (start + length, address + size);
        if end > taken_end {
            self.free.insert(taken_end, end - taken_end);
        }
    }

    /// Returns addresses that were taken.
    pub(crate) fn give_back(&mut self, mut address: u64, mut size: u64) {
        if let Some(after) = self.free.remove(&(address + size)) {
            size += after;
        }
        if let Some((&start, &length)) = self.free.range(..address).next_back()
            && start + length == address
        {
            self.free.remove(&start);
            (address, size) = (start, length + size);
        }
        self.free.insert(address, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_gap_that_fits_is_taken_and_gaps_grow_together() {
        let mut space = Space::new(100, 900);
        assert_eq!(space.take(100, 100), Some(100));
        assert_eq!(space.take(100, 100), Some(200));
        assert_eq!(space.take(100, 200), Some(400));
        assert_eq!(space.take(100, 100), Some(300));
        space.give_back(200, 100);
        space.give_back(100, 100);
        assert_eq!(space.take(200, 100), Some(100));
        assert_eq!(space.take(501, 1), None);
        assert_eq!(space.take(500, 1), Some(500));
        assert_eq!(space.take(1, 1), None);
        for (at, size) in [(500, 500), (300, 200), (100, 200)] {
            space.give_back(at, size);
        }
        assert_eq!(space.free, BTreeMap::from([(100, 900)]));
    }
}
