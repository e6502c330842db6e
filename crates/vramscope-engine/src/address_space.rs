//! [`AddressSpace`]: which addresses are free and which are taken.

use std::collections::{BTreeMap, BTreeSet};

/// The addresses from a base to the end of the address space, of which ranges are taken and given back. Sizes are in bytes.
#[derive(Debug, Clone)]
pub struct AddressSpace {
    /// The free ranges: the size of each by its first address. Two of them are never neighbours, for those are joined.
    gaps: BTreeMap<u64, u64>,
    /// The first addresses of the free ranges by their size. Ranges are whole pages, so there are few sizes.
    by_size: BTreeMap<u64, BTreeSet<u64>>,
}

impl AddressSpace {
    /// An address space in which every address from `base` on is free.
    pub fn from_base(base: u64) -> Self {
        let mut space = Self { gaps: BTreeMap::new(), by_size: BTreeMap::new() };
        space.insert(base, u64::MAX - base);
        space
    }

    /// Adds a free range.
    fn insert(&mut self, start: u64, size: u64) {
        if size > 0 {
            self.gaps.insert(start, size);
            self.by_size.entry(size).or_default().insert(start);
        }
    }

    /// Removes the free range that begins at `start`, and returns its size.
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

    /// Takes the first `size` addresses of the lowest free range that has as many, and returns the first; `None` where no range
    /// has. A size of 0 counts as 1 in the search.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let lowest = self.by_size.range(size.max(1)..).filter_map(|(_, starts)| starts.first());
        let address = lowest.copied().min()?;
        self.take_at(address, size).then_some(address)
    }

    /// Takes the addresses from `address` up to, but without, `address + size`. Returns false and takes none where one of them is
    /// taken already.
    pub fn take_at(&mut self, address: u64, size: u64) -> bool {
        let Some((&start, &gap)) = self.gaps.range(..=address).next_back() else { return false };
        let end = start + gap;
        let Some(after) = address.checked_add(size).filter(|&after| after <= end) else { return false };
        self.remove(start);
        self.insert(start, address - start);
        self.insert(after, end - after);
        true
    }

    /// Gives back a range that was taken.
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
    fn a_range_can_be_taken_where_it_is_wanted() {
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
