//! [`AddressSpace`]: free and taken address ranges.

use std::collections::{BTreeMap, BTreeSet};

/// Free address ranges from a base address to the end of the address space. Sizes are in bytes.
#[derive(Debug, Clone)]
pub struct AddressSpace {
    /// Free ranges: size by first address. Adjacent free ranges are always merged.
    gaps: BTreeMap<u64, u64>,
    /// First addresses of the free ranges by size. Sizes are whole pages, so there are few distinct sizes.
    by_size: BTreeMap<u64, BTreeSet<u64>>,
}

impl AddressSpace {
    /// Creates an address space in which all addresses from `base` on are free.
    pub fn from_base(base: u64) -> Self {
        let mut space = Self { gaps: BTreeMap::new(), by_size: BTreeMap::new() };
        space.insert(base, u64::MAX - base);
        space
    }

    /// Adds a free range. Does not merge it with its neighbors.
    fn insert(&mut self, start: u64, size: u64) {
        if size > 0 {
            self.gaps.insert(start, size);
            self.by_size.entry(size).or_default().insert(start);
        }
    }

    /// Removes the free range that begins at `start`. Returns its size.
    fn remove(&mut self, start: u64) -> Option<u64> {
        let size = self.gaps.remove(&start)?;
        if let Some(starts) = self.by_size.get_mut(&size) {
            starts.remove(&start);
            if starts.is_empty() {
                self.by_size.remove(&size);
            }
        }
        Some(size)
    }

    /// Takes `size` bytes at the lowest free range that is large enough. Returns the first address, or `None` if no range is large
    /// enough. A size of 0 searches for a range of 1 byte.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let lowest = self.by_size.range(size.max(1)..).filter_map(|(_, starts)| starts.first());
        let address = lowest.copied().min()?;
        self.take_at(address, size).then_some(address)
    }

    /// Takes the half-open range `address..address + size`. Returns false and takes nothing if a part of it is already taken.
    pub fn take_at(&mut self, address: u64, size: u64) -> bool {
        let Some((&start, &gap)) = self.gaps.range(..=address).next_back() else { return false };
        let end = start + gap;
        let Some(after) = address.checked_add(size).filter(|&after| after <= end) else { return false };
        self.remove(start);
        self.insert(start, address - start);
        self.insert(after, end - after);
        true
    }

    /// Returns a taken range to the free ranges, merged with its neighbors.
    pub fn give_back(&mut self, address: u64, size: u64) {
        let (mut start, mut end) = (address, address.saturating_add(size));
        if let Some((&before, &gap)) = self.gaps.range(..start).next_back()
            && before + gap == start
        {
            self.remove(before);
            start = before;
        }
        end += self.remove(end).unwrap_or(0);
        self.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_is_taken_at_a_chosen_address() {
        let mut space = AddressSpace::from_base(64);
        assert!(space.take_at(70, 2));
        assert!(!space.take_at(71, 1));
        assert!(!space.take_at(69, 2));
        assert!(!space.take_at(63, 1));
        assert!(!space.take_at(u64::MAX - 1, 2));
        assert_eq!(space.take(7), Some(72));
        assert_eq!(space.take(6), Some(64));
        space.give_back(70, 2);
        space.give_back(64, 6);
        assert_eq!(space.take(8), Some(64));
    }

    proptest! {
        #[test]
        fn the_lowest_gap_that_is_large_enough_is_taken(steps in prop::collection::vec((any::<bool>(), 1u64..20), 0..80)) {
            let mut space = AddressSpace::from_base(0);
            let (mut taken, mut live) = ([false; 4096], Vec::new());
            for (takes, n) in steps {
                if takes || live.is_empty() {
                    let size = n as usize;
                    let lowest = (0..4096 - size).find(|&at| taken[at..at + size].iter().all(|t| !t)).unwrap();
                    prop_assert_eq!(space.take(n), Some(lowest as u64));
                    taken[lowest..lowest + size].fill(true);
                    live.push((lowest, size));
                } else {
                    let (at, size) = live.swap_remove(n as usize % live.len());
                    space.give_back(at as u64, size as u64);
                    taken[at..at + size].fill(false);
                }
            }
        }
    }
}
