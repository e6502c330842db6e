//! The memo: values that a pickle refers to by index.

use hashbrown::HashMap;

use crate::formats::assembler::Value;
use crate::ids::{FrameId, StackId, StringId};

/// Values by index. Writers use consecutive indexes and memoize every container, a million in a large snapshot. So an entry takes half
/// the size of a [`Value`].
#[derive(Default)]
pub(super) struct Memo {
    /// Entries 0, 1, 2 and so on.
    entries: Vec<Entry>,
    /// Entries after the first gap. An index in the file must not determine the size of an allocation.
    sparse: HashMap<u32, Entry>,
    /// Values that do not fit into an entry.
    others: Vec<Value>,
}

/// A value in 8 bytes.
#[derive(Clone, Copy)]
pub(super) enum Entry {
    Opaque,
    EmptyList,
    Str(StringId),
    Frame(FrameId),
    Stack(StackId),
    /// One event.
    Event(u32),
    Block(u32),
    Pool(u32),
    Open(u32),
    /// Index in [`Memo::others`].
    Other(u32),
}

impl Entry {
    fn of(value: Value) -> Option<Self> {
        Some(match value {
            Value::Opaque => Self::Opaque,
            Value::EmptyList => Self::EmptyList,
            Value::Str(id) => Self::Str(id),
            Value::Frame(id) => Self::Frame(id),
            Value::Stack(id) => Self::Stack(id),
            Value::Events { first, len: 1 } => Self::Event(first),
            Value::Block(n) => Self::Block(n),
            Value::Pool(n) => Self::Pool(n),
            Value::Open(n) => Self::Open(n),
            _ => return None,
        })
    }
}

impl Memo {
    /// Returns the number of values: the index of the next `MEMOIZE`.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.sparse.len()
    }

    /// Returns the entry at index `i`, if there is no gap before it.
    #[inline]
    pub(super) fn entry(&self, i: u32) -> Option<Entry> {
        self.entries.get(i as usize).copied()
    }

    /// Returns the value at index `i`.
    #[inline]
    pub(super) fn get(&self, i: u32) -> Option<Value> {
        match self.entries.get(i as usize) {
            Some(&entry) => Some(self.value(entry)),
            None => self.sparse.get(&i).map(|&entry| self.value(entry)),
        }
    }

    /// Returns the frame at index `i`.
    #[inline]
    pub(super) fn frame(&self, i: u32) -> Option<FrameId> {
        match self.entry(i) {
            Some(Entry::Frame(frame)) => Some(frame),
            _ => None,
        }
    }

    /// Sets the value at index `i`. Returns the previous value.
    pub(super) fn set(&mut self, i: u32, value: Value) -> Option<Value> {
        let before = self.entries.get(i as usize).or_else(|| self.sparse.get(&i)).copied();
        let entry = match (Entry::of(value), before) {
            (Some(entry), _) => entry,
            (None, Some(Entry::Other(place))) => {
                let before = std::mem::replace(&mut self.others[place as usize], value);
                return Some(before);
            }
            (None, _) => {
                self.others.push(value);
                // Each takes bytes of the file; four billion of them would have filled the memory before.
                Entry::Other((self.others.len() - 1) as u32)
            }
        };
        let next = self.entries.len();
        match self.entries.get_mut(i as usize) {
            Some(slot) => *slot = entry,
            None if i as usize == next && self.sparse.is_empty() => self.entries.push(entry),
            None => {
                self.sparse.insert(i, entry);
            }
        }
        before.map(|before| self.value(before))
    }

    /// Appends a newly opened container. Returns its index, or `None` if the indexes have a gap.
    #[inline]
    pub(super) fn push_container(&mut self, slot: Option<u32>) -> Option<u32> {
        let i = u32::try_from(self.entries.len()).ok().filter(|_| self.sparse.is_empty())?;
        self.entries.push(slot.map_or(Entry::Opaque, Entry::Open));
        Some(i)
    }

    /// Approximate memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        // A map entry takes 1.5 times its size, and the map is at least a third full.
        self.entries.capacity() * size_of::<Entry>()
            + 5 * self.sparse.len() * size_of::<(u32, Entry)>()
            + self.others.capacity() * size_of::<Value>()
    }

    #[inline]
    fn value(&self, entry: Entry) -> Value {
        match entry {
            Entry::Opaque => Value::Opaque,
            Entry::EmptyList => Value::EmptyList,
            Entry::Str(id) => Value::Str(id),
            Entry::Frame(id) => Value::Frame(id),
            Entry::Stack(id) => Value::Stack(id),
            Entry::Event(first) => Value::Events { first, len: 1 },
            Entry::Block(n) => Value::Block(n),
            Entry::Pool(n) => Value::Pool(n),
            Entry::Open(n) => Value::Open(n),
            Entry::Other(place) => self.others[place as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(kind: u8, n: u32) -> Value {
        match kind {
            0 => Value::Opaque,
            1 => Value::Events { first: n, len: 1 },
            2 => Value::Events { first: n, len: 2 },
            3 => Value::Int(n.into()),
            4 => Value::Block(n),
            5 => Value::Pool(n),
            6 => Value::Open(n),
            7 => Value::EmptyList,
            _ => Value::List(n),
        }
    }

    proptest! {
        #[test]
        fn the_memo_behaves_like_a_map(steps in prop::collection::vec((0u32..40, 0u8..9, 0u32..100, any::<bool>()), 0..80)) {
            let (mut memo, mut plain) = (Memo::default(), HashMap::new());
            for (at, kind, n, next) in steps {
                let (i, v) = (if next { plain.len() as u32 } else { at }, value(kind, n));
                prop_assert_eq!(memo.set(i, v), plain.insert(i, v));
                prop_assert_eq!(memo.len(), plain.len());
                for i in 0..130 {
                    prop_assert_eq!(memo.get(i), plain.get(&i).copied());
                }
            }
        }
    }
}
