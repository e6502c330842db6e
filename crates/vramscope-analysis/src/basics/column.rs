//! A memory-efficient column of millions of numbers.

use std::ops::RangeInclusive;

/// Numbers that are mostly sums of a few sizes. They are stored as 32-bit counts of a common unit; once a number does not fit,
/// all are stored as plain 64-bit numbers.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The unit is two to the power of `shift`.
    shift: u32,
    counts: Vec<u32>,
    /// All numbers, once one did not fit; empty before.
    plain: Vec<u64>,
}

impl Column {
    /// Reserves room for `capacity` numbers, each a sum of parts. `bits` is the bitwise or of all parts.
    pub(crate) fn of_sums(bits: u64, capacity: usize) -> Self {
        let shift = if bits == 0 { 0 } else { bits.trailing_zeros() };
        Self { shift, counts: Vec::with_capacity(capacity), plain: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, number: u64) {
        if self.plain.is_empty() {
            let count = number >> self.shift;
            if let Ok(count) = u32::try_from(count)
                && u64::from(count) << self.shift == number
            {
                return self.counts.push(count);
            }
            self.make_plain();
        }
        self.plain.push(number);
    }

    #[cold]
    fn make_plain(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        self.plain.reserve_exact(counts.capacity());
        self.plain.extend(counts.into_iter().map(|count| u64::from(count) << self.shift));
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len() + self.plain.len()
    }

    /// Returns number `i` if it exists.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<u64> {
        match self.counts.get(i) {
            Some(&count) => Some(u64::from(count) << self.shift),
            None => self.plain.get(i).copied(),
        }
    }

    /// Returns the position of the first maximum in a range; the start of the range if the range is empty.
    pub(crate) fn first_highest(&self, range: RangeInclusive<usize>) -> usize {
        fn first_highest<T: Copy + Ord>(values: &[T]) -> usize {
            let highest = values.iter().copied().max();
            values.iter().position(|&v| Some(v) == highest).unwrap_or(0)
        }
        let first = *range.start();
        match self.counts.get(range.clone()) {
            Some(counts) => first + first_highest(counts),
            None => first + self.plain.get(range).map_or(0, first_highest),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_column_returns_the_numbers_it_was_made_of(
            mut numbers in prop::collection::vec(prop_oneof![0..9u64, any::<u32>().prop_map(u64::from), any::<u64>()], 0..40),
            unit in 0..12u32,
            odd in any::<bool>(),
        ) {
            for number in &mut numbers {
                *number = (*number << unit) | u64::from(odd);
            }
            // Neither odd numbers nor very large ones fit the unit.
            let mut column = Column::of_sums(1 << unit, numbers.len());
            numbers.iter().for_each(|&number| column.push(number));
            prop_assert_eq!(column.len(), numbers.len());
            for i in 0..=numbers.len() {
                prop_assert_eq!(column.get(i), numbers.get(i).copied());
            }
            for first in 0..numbers.len() {
                let highest = numbers[first..].iter().max().unwrap();
                let position = first + numbers[first..].iter().position(|n| n == highest).unwrap();
                prop_assert_eq!(column.first_highest(first..=numbers.len() - 1), position);
            }
        }
    }
}
