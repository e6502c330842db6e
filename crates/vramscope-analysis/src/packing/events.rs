//! Items in the order in which they come and go, and how much of them is live at once.

use super::Item;

/// Numbers of the items that take room, by the time they start and by the time they end.
///
/// Numbers have 32 bits to halve the memory of millions of items; items past `u32::MAX` are left out.
pub(crate) struct Events {
    pub(crate) starts: Vec<u32>,
    pub(crate) ends: Vec<u32>,
}

impl Events {
    pub(crate) fn new(items: &[Item]) -> Self {
        Self { starts: sorted(items, |item| item.from), ends: sorted(items, |item| item.to) }
    }

    /// The events as seen going back in time, for items that [`mirrored`] has turned.
    pub(crate) fn reversed(&self) -> Self {
        let reversed = |numbers: &[u32]| numbers.iter().rev().copied().collect();
        Self { starts: reversed(&self.ends), ends: reversed(&self.starts) }
    }

    /// The highest sum of sizes live at one time: no packing is lower.
    pub(crate) fn peak(&self, items: &[Item]) -> u64 {
        // Below 2^32 items of less than 2^64 bytes cannot overflow 128 bits.
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

/// The same items with time running backwards.
pub(crate) fn mirrored(items: &[Item]) -> Vec<Item> {
    items.iter().map(|item| Item { from: u32::MAX - item.to, to: u32::MAX - item.from, ..*item }).collect()
}

fn sorted(items: &[Item], time: impl Fn(&Item) -> u32) -> Vec<u32> {
    // Time above number in one word: sorting moves the keys and never looks an item up.
    let mut keys = (0..=u32::MAX)
        .zip(items)
        .filter(|(_, item)| item.takes_room())
        .map(|(number, item)| u64::from(time(item)) << 32 | u64::from(number))
        .collect::<Vec<_>>();
    keys.sort_unstable();
    #[expect(clippy::cast_possible_truncation, reason = "the number is the lower half of the word")]
    keys.into_iter().map(|key| key as u32).collect()
}
