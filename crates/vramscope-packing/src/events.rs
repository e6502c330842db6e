//! The starts and ends of items in time order, and the peak of their live sizes.

use super::Item;

/// Indices of the items that take room, sorted by start and sorted by end.
///
/// Indices have 32 bits, to halve the memory for millions of items; items with an index above `u32::MAX` are left out.
pub(crate) struct Events {
    pub(crate) starts: Vec<u32>,
    pub(crate) ends: Vec<u32>,
}

impl Events {
    pub(crate) fn new(items: &[Item]) -> Self {
        Self { starts: sorted(items, |item| item.from), ends: sorted(items, |item| item.to) }
    }

    /// Returns the events in reverse time order, for items returned by [`mirrored`].
    pub(crate) fn reversed(&self) -> Self {
        let reversed = |numbers: &[u32]| numbers.iter().rev().copied().collect();
        Self { starts: reversed(&self.ends), ends: reversed(&self.starts) }
    }

    /// Returns the peak of the live sizes: no packing is lower.
    pub(crate) fn peak(&self, items: &[Item]) -> u64 {
        // Fewer than 2^32 items of less than 2^64 bytes each cannot overflow 128 bits.
        let mut live = 0_u128;
        let mut peak = 0;
        let mut ends = self.ends.iter().map(|&number| &items[number as usize]).peekable();
        for item in self.starts.iter().map(|&number| &items[number as usize]) {
            while let Some(gone) = ends.next_if(|gone| gone.to <= item.from) {
                live -= u128::from(gone.size);
            }
            live += u128::from(item.size);
            peak = peak.max(live);
        }
        u64::try_from(peak).unwrap_or(u64::MAX)
    }
}

/// Returns the items with reversed time.
pub(crate) fn mirrored(items: &[Item]) -> Vec<Item> {
    items.iter().map(|item| Item { from: u32::MAX - item.to, to: u32::MAX - item.from, ..*item }).collect()
}

fn sorted(items: &[Item], time: impl Fn(&Item) -> u32) -> Vec<u32> {
    // A key holds the time above the index in one word: sorting moves only keys and never reads an item.
    let mut keys = (0..=u32::MAX)
        .zip(items)
        .filter(|(_, item)| item.takes_room())
        .map(|(number, item)| u64::from(time(item)) << 32 | u64::from(number))
        .collect::<Vec<_>>();
    keys.sort_unstable();
    #[expect(clippy::cast_possible_truncation, reason = "the index is the lower half of the word")]
    keys.into_iter().map(|key| key as u32).collect()
}
