//! The free blocks of a class, in search order.

use std::collections::BTreeMap;

use vramscope_basics::count_steps;

use crate::arena::block::BlockKey;

/// Position of a free block in the search order: size in bytes, age of its segment (0 if the policy does not search by age), address.
pub(super) type SearchKey = (u64, u64, u64);

/// A set of free blocks in search order. The last block added is kept outside the tree: most blocks are reused right after they were
/// freed, and the tree then stays unchanged.
#[derive(Default)]
pub(super) struct FreeBlocks {
    tree: BTreeMap<SearchKey, BlockKey>,
    last: Option<(SearchKey, BlockKey)>,
    added: Added,
}

/// The blocks that were added to the tree since the cache was last released. Only these can be released: a block that stayed behind is still
/// split, and when it changes, it is added again. So a program whose requests fail over and over does not visit all free blocks each time.
enum Added {
    Some(Vec<SearchKey>),
    /// As many as are in the tree, or more.
    All,
}

impl Default for Added {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl FreeBlocks {
    #[inline]
    pub(super) fn insert(&mut self, search_key: SearchKey, key: BlockKey) {
        if let Some((search_key, key)) = self.last.replace((search_key, key)) {
            self.tree.insert(search_key, key);
            self.keep_added(search_key);
        }
    }

    /// Lets the next call of [`take_added`](Self::take_added) return the block at this position.
    #[inline]
    pub(super) fn keep_added(&mut self, search_key: SearchKey) {
        if let Added::Some(added) = &mut self.added {
            if added.len() < self.tree.len() {
                added.push(search_key);
            } else {
                self.added = Added::All;
            }
        }
    }

    /// Returns the blocks that were added since the last call, in search order.
    pub(super) fn take_added(&mut self) -> Vec<BlockKey> {
        let Added::Some(mut added) = std::mem::take(&mut self.added) else { return self.iter().collect() };
        added.extend(self.last.map(|(search_key, _)| search_key));
        count_steps(added.len());
        added.sort_unstable();
        added.dedup();
        let block = |search_key: &SearchKey| match self.last {
            Some((last, key)) if last == *search_key => Some(key),
            _ => self.tree.get(search_key).copied(),
        };
        added.iter().filter_map(block).collect()
    }

    /// Lets the next call of [`take_added`](Self::take_added) return all blocks.
    pub(super) fn add_all(&mut self) {
        self.added = Added::All;
    }

    #[inline]
    pub(super) fn remove(&mut self, search_key: SearchKey) {
        match self.last {
            Some((last, _)) if last == search_key => self.last = None,
            _ => {
                self.tree.remove(&search_key);
            }
        }
    }

    /// Returns the first block of at least `size` bytes.
    #[inline]
    pub(super) fn first_of(&self, size: u64) -> Option<BlockKey> {
        let last = self.last.filter(|&(search_key, _)| search_key.0 >= size);
        if self.tree.is_empty() {
            return last.map(|(_, key)| key);
        }
        let in_tree = self.tree.range((size, 0, 0)..).next().map(|(&search_key, &key)| (search_key, key));
        match (in_tree, last) {
            (Some(a), Some(b)) => Some(a.min(b).1),
            (a, b) => a.or(b).map(|(_, key)| key),
        }
    }

    /// Returns all blocks of at least `size` bytes, in search order.
    pub(super) fn from(&self, size: u64) -> impl Iterator<Item = BlockKey> {
        let last = self.last.filter(|&(search_key, _)| search_key.0 >= size);
        let before =
            self.tree.range((size, 0, 0)..).take_while(move |&(k, _)| last.is_none_or(|(l, _)| *k < l));
        let after =
            self.tree.range((size, 0, 0)..).skip_while(move |&(k, _)| last.is_none_or(|(l, _)| *k < l));
        let from =
            before.map(|(_, &key)| key).chain(last.map(|(_, key)| key)).chain(after.map(|(_, &key)| key));
        from.inspect(|_| count_steps(1))
    }

    /// Returns all blocks of less than `size` bytes, from the last in search order to the first.
    pub(super) fn below(&self, size: u64) -> impl Iterator<Item = BlockKey> {
        let last = self.last.filter(|&(search_key, _)| search_key.0 < size);
        let from_the_end = self.tree.range(..(size, 0, 0)).rev();
        let is_after = move |k: &SearchKey| last.is_some_and(|(l, _)| *k > l);
        let after = from_the_end.clone().take_while(move |&(k, _)| is_after(k));
        let before = from_the_end.skip_while(move |&(k, _)| is_after(k));
        let below =
            after.map(|(_, &key)| key).chain(last.map(|(_, key)| key)).chain(before.map(|(_, &key)| key));
        below.inspect(|_| count_steps(1))
    }

    /// Returns all blocks, in search order.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockKey> {
        self.from(0)
    }

    pub(super) fn len(&self) -> usize {
        self.tree.len() + usize::from(self.last.is_some())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn free_blocks_are_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u64..8, 0u64..4), 0..60), from in 0u64..9) {
            let (mut blocks, mut plain) = (FreeBlocks::default(), BTreeMap::new());
            for (insert, size, address) in steps {
                let key = (size, 0, address);
                let block = BlockKey::new((size * 10 + address) as usize);
                if insert && !plain.contains_key(&key) {
                    blocks.insert(key, block);
                    plain.insert(key, block);
                } else if plain.remove(&key).is_some() {
                    blocks.remove(key);
                }
                prop_assert_eq!(blocks.len(), plain.len());
                prop_assert_eq!(blocks.iter().collect::<Vec<_>>(), plain.values().copied().collect::<Vec<_>>());
                let expected: Vec<_> = plain.range((from, 0, 0)..).map(|(_, &b)| b).collect();
                prop_assert_eq!(blocks.first_of(from), expected.first().copied());
                prop_assert_eq!(blocks.from(from).collect::<Vec<_>>(), expected);
                let below: Vec<_> = plain.range(..(from, 0, 0)).rev().map(|(_, &b)| b).collect();
                prop_assert_eq!(blocks.below(from).collect::<Vec<_>>(), below);
            }
        }

        /// A block that was not added since the last release is not visited, unless as many were.
        #[test]
        fn a_release_visits_the_added_blocks(steps in prop::collection::vec((0u8..12, 0u64..4, 0u64..40), 0..200)) {
            let (mut blocks, mut plain, mut added) = (FreeBlocks::default(), BTreeMap::new(), BTreeMap::new());
            for (what, size, address) in steps {
                let search_key = (size, 0, address);
                let block = BlockKey::new((size * 100 + address) as usize);
                if what == 0 {
                    let taken = blocks.take_added();
                    prop_assert!(added.values().all(|key| taken.contains(key)));
                    let in_order: Vec<_> = plain.values().copied().filter(|key| taken.contains(key)).collect();
                    prop_assert_eq!(&taken, &in_order);
                    added.clear();
                    prop_assert!(blocks.take_added().len() <= 1);
                } else if what < 8 && !plain.contains_key(&search_key) {
                    blocks.insert(search_key, block);
                    plain.insert(search_key, block);
                    added.insert(search_key, block);
                } else if plain.remove(&search_key).is_some() {
                    added.remove(&search_key);
                    blocks.remove(search_key);
                }
            }
        }
    }
}
