//! Which addresses are free.

use std::collections::BTreeMap;

/// Addresses from a base to the end of the address space, of which ranges are taken and given back.
#[derive(Debug, Clone)]
pub struct AddressSpace {
    /// Free ranges: first address to size. Neighbours are joined.
    gaps: BTreeMap<u64, u64>,
}

impl AddressSpace {
    /// Every address from `base` on, free.
    pub fn from_base(base: u64) -> Self {
        Self { gaps: BTreeMap::from([(base, u64::MAX - base)]) }
    }

    /// Takes the first `size` addresses of the lowest gap that has them; `None` where none has.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let (&address, _) = self.gaps.iter().find(|&(_, &gap)| gap >= size)?;
        self.take_at(address, size).then_some(address)
    }

    /// Takes the addresses `[address, address + size)`; false, and nothing done, where one of them is taken.
    pub fn take_at(&mut self, address: u64, size: u64) -> bool {
        let Some((&start, &gap)) = self.gaps.range(..=address).next_back() else { return false };
        let end = start + gap;
        let Some(after) = address.checked_add(size).filter(|&after| after <= end) else { return false };
        self.gaps.remove(&start);
        if start < address {
            self.gaps.insert(start, address - start);
        }
        if after < end {
            self.gaps.insert(after, end - after);
        }
        true
    }

    /// Gives a range back that was taken.
    pub fn give_back(&mut self, address: u64, size: u64) {
        let (mut start, mut end) = (address, address.saturating_add(size));
        if let Some((&before, &gap)) = self.gaps.range(..start).next_back()
            && before + gap == start
        {
            start = before;
        }
        if let Some(gap) = self.gaps.remove(&end) {
            end += gap;
        }
        self.gaps.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
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
}
