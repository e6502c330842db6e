//! [`Ranges`]: values of byte ranges.

use std::collections::BTreeMap;

/// Values of half-open byte ranges that do not overlap.
#[derive(Debug, Clone)]
pub(crate) struct Ranges<T> {
    /// First byte of each range: its end and its value.
    by_start: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self { by_start: BTreeMap::new() }
    }
}

impl<T: Clone> Ranges<T> {
    /// Returns the values of the ranges that overlap `start..end`, in the order of addresses.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &T> {
        let before =
            self.by_start.range(..start).next_back().filter(|&(_, &(to, _))| to > start && start < end);
        let within = self.by_start.range(start..end.max(start));
        before.into_iter().chain(within).map(|(_, (_, value))| value)
    }

    /// Sets the value of `start..end`. Returns the values that parts of it had before; the bytes outside keep theirs.
    pub(crate) fn replace(&mut self, start: u64, end: u64, value: T) -> Vec<T> {
        let removed = self.remove(start, end);
        if start < end {
            self.by_start.insert(start, (end, value));
        }
        removed
    }

    /// Removes `start..end`, and returns the values that parts of it had. The bytes outside keep theirs.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<T> {
        let mut removed = Vec::new();
        if start >= end {
            return removed;
        }
        let before = self.by_start.range_mut(..start).next_back().filter(|(_, (to, _))| *to > start);
        let mut behind = None;
        if let Some((_, (to, value))) = before {
            if *to > end {
                behind = Some((*to, value.clone()));
            }
            removed.push(value.clone());
            *to = start;
        }
        while let Some((&from, _)) = self.by_start.range(start..end).next() {
            let Some((to, value)) = self.by_start.remove(&from) else { break };
            if to > end {
                behind = Some((to, value.clone()));
            }
            removed.push(value);
        }
        if let Some(behind) = behind {
            self.by_start.insert(end, behind);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Against a value for each byte.
        #[test]
        fn ranges_have_the_values_of_their_bytes(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 1..60),
        ) {
            let mut ranges: Ranges<usize> = Ranges::default();
            let mut bytes = vec![None; 80];
            let distinct = |bytes: &[Option<usize>]| {
                let mut values: Vec<usize> = bytes.iter().flatten().copied().collect();
                values.sort_unstable();
                values.dedup();
                values
            };
            for (value, (sets, start, size)) in steps.into_iter().enumerate() {
                let end = start + size;
                let within = start as usize..end as usize;
                let before = distinct(&bytes[within.clone()]);
                let mut overlapping: Vec<usize> = ranges.overlapping(start, end).copied().collect();
                overlapping.sort_unstable();
                overlapping.dedup();
                prop_assert_eq!(&overlapping, &before);
                let mut removed =
                    if sets { ranges.replace(start, end, value) } else { ranges.remove(start, end) };
                bytes[within].fill(sets.then_some(value));
                removed.sort_unstable();
                removed.dedup();
                prop_assert_eq!(removed, before);
            }
            let all = (0..80).map(|at| ranges.overlapping(at, at + 1).next().copied());
            prop_assert_eq!(all.collect::<Vec<_>>(), bytes);
        }
    }
}
