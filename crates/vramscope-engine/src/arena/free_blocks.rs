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
mod tests;
