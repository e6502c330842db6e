//! Interned strings and lists of strings.

use std::hash::BuildHasher as _;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::TableFull;
use crate::ids::{StringId, StringListId};

/// All distinct strings, concatenated in one buffer.
#[derive(Debug, Default, Clone)]
pub struct StringTable {
    text: String,
    ends: Vec<usize>,
    index: HashTable<StringId>,
    hasher: DefaultHashBuilder,
}

/// Maximum bytes of an index entry: the id and one byte of the hash, in a table that may be less than half full.
pub(crate) const INDEX_ENTRY: usize = 5 * 16 / 7;

#[cfg(test)]
thread_local! {
    static LOOKED_UP: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Bytes of all texts that this thread has looked up in tables so far: the work of interning texts.
#[cfg(test)]
pub(crate) fn bytes_looked_up() -> usize {
    LOOKED_UP.get()
}

impl StringTable {
    /// Approximate memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.text.len() + self.ends.len() * (size_of::<usize>() + INDEX_ENTRY)
    }

    /// Returns the id of `s`. Adds it if it is new.
    pub fn intern(&mut self, s: &str) -> Result<StringId, TableFull> {
        #[cfg(test)]
        LOOKED_UP.set(LOOKED_UP.get() + s.len());
        let hash = self.hasher.hash_one(s);
        if let Some(&id) = self.index.find(hash, |&id| slice(&self.text, &self.ends, id) == s) {
            return Ok(id);
        }
        let id = StringId::new(self.ends.len())?;
        self.text.push_str(s);
        self.ends.push(self.text.len());
        let Self { text, ends, index, hasher } = self;
        index.insert_unique(hash, id, |&id| hasher.hash_one(slice(text, ends, id)));
        Ok(id)
    }

    /// Returns the id of `s`, if it is in the table.
    pub fn find(&self, s: &str) -> Option<StringId> {
        let hash = self.hasher.hash_one(s);
        self.index.find(hash, |&id| slice(&self.text, &self.ends, id) == s).copied()
    }

    /// Returns the string with this id.
    pub fn get(&self, id: StringId) -> &str {
        slice(&self.text, &self.ends, id)
    }

    /// Returns all strings, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = &str> + '_ {
        (0..self.ends.len()).map(|i| &self.text[bounds(&self.ends, i)])
    }

    /// Returns the number of distinct strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn slice<'t>(text: &'t str, ends: &[usize], id: StringId) -> &'t str {
    &text[bounds(ends, id.index())]
}

/// Range of entry `i` in a buffer whose entries end at `ends`.
pub(crate) fn bounds(ends: &[usize], i: usize) -> Range<usize> {
    let start = if i == 0 { 0 } else { ends[i - 1] };
    start..ends[i]
}

/// All distinct lists of strings: the `forward_frames` that anomaly mode adds to an event.
#[derive(Debug, Default, Clone)]
pub struct StringListTable {
    lists: Vec<Vec<StringId>>,
    /// Number of strings in all lists.
    ids: usize,
    index: hashbrown::HashMap<Vec<StringId>, StringListId>,
}

impl StringListTable {
    /// Approximate memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        // Each list is stored twice, and map entries take about twice their size.
        self.ids * 2 * size_of::<StringId>() + self.lists.len() * 4 * size_of::<Vec<StringId>>()
    }

    /// Returns the id of `list`. Adds it if it is new.
    pub fn intern(&mut self, list: Vec<StringId>) -> Result<StringListId, TableFull> {
        if let Some(&id) = self.index.get(&list) {
            return Ok(id);
        }
        let id = StringListId::new(self.lists.len())?;
        self.ids += list.len();
        self.lists.push(list.clone());
        self.index.insert(list, id);
        Ok(id)
    }

    /// Returns the strings of the list with this id, in order.
    pub fn get(&self, id: StringListId) -> &[StringId] {
        &self.lists[id.index()]
    }
}
