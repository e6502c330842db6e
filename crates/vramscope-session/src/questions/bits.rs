//! Sets of numbers, for search results.

use vramscope_analysis::Cancel;

use crate::SessionError;

/// The number of items between two checks for cancellation. A multiple of 8.
pub(crate) const STRIDE: usize = 1 << 16;

/// A set of numbers, with one bit for each.
#[derive(Debug)]
pub(crate) struct Bits(Vec<u8>);

impl Bits {
    /// The set of the given numbers.
    pub(crate) fn of(numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut bits = Vec::new();
        for number in numbers {
            if number / 8 >= bits.len() {
                bits.resize(number / 8 + 1, 0);
            }
            bits[number / 8] |= 1 << (number % 8);
        }
        Self(bits)
    }

    /// The set of the numbers below `length` for which `holds` returns true.
    pub(crate) fn those(
        length: usize,
        cancel: &Cancel,
        holds: impl Fn(usize) -> bool,
    ) -> Result<Self, SessionError> {
        let mut bits = vec![0; length.div_ceil(8)];
        for first in (0..length).step_by(STRIDE) {
            if cancel.is_cancelled() {
                return Err(SessionError::Cancelled);
            }
            for number in first..length.min(first + STRIDE) {
                bits[number / 8] |= u8::from(holds(number)) << (number % 8);
            }
        }
        Ok(Self(bits))
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1)
    }

    /// The bits; number 0 is the lowest bit of the first byte.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The numbers of the set, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        let full = self.0.iter().enumerate().filter(|&(_, &byte)| byte != 0);
        full.flat_map(|(at, byte)| {
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at * 8 + bit)
        })
    }
}

/// Closed intervals of moments, sorted and disjoint.
#[derive(Debug)]
pub(crate) struct Spans(Vec<[u32; 2]>);

impl Spans {
    /// Builds the set from intervals in any order.
    pub(crate) fn of(mut spans: Vec<[u32; 2]>) -> Self {
        spans.sort_unstable();
        let mut apart: Vec<[u32; 2]> = Vec::new();
        for [from, to] in spans {
            match apart.last_mut() {
                Some(last) if from <= last[1] => last[1] = last[1].max(to),
                _ => apart.push([from, to]),
            }
        }
        Self(apart)
    }

    pub(crate) fn has(&self, at: u32) -> bool {
        let after = self.0.partition_point(|span| span[0] <= at);
        after.checked_sub(1).is_some_and(|span| at <= self.0[span][1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_set_returns_its_numbers() {
        let bits = Bits::of([3, 9, 200]);
        assert_eq!(bits.numbers().collect::<Vec<_>>(), [3, 9, 200]);
        assert_eq!(
            [2, 3, 9, 10, 200, 201, 9000].map(|n| bits.has(n)),
            [false, true, true, false, true, false, false]
        );
        let odd = Bits::those(100_000, &Cancel::default(), |n| n % 2 == 1).unwrap();
        assert_eq!(odd.numbers().count(), 50_000);
        assert!(odd.has(99_999) && !odd.has(0) && !odd.has(u32::MAX));
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(Bits::those(1, &cancel, |_| true).is_err());
    }

    #[test]
    fn spans_may_overlap_and_come_in_any_order() {
        let spans = Spans::of(vec![[10, 20], [1, 2], [15, 30], [u32::MAX, u32::MAX], [40, 39]]);
        let inside: Vec<u32> = (0..50).filter(|&at| spans.has(at)).collect();
        assert_eq!(inside, [1, 2].into_iter().chain(10..=30).collect::<Vec<_>>());
        assert!(spans.has(u32::MAX));
    }
}
