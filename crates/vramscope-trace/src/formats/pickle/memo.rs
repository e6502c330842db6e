//! The memo: values that a pickle refers to by number.

use hashbrown::HashMap;

use crate::formats::assembler::Value;
use crate::ids::{FrameId, StackId, StringId};

/// Values by their number. Writers number them in order and put every container there, a million of them in a
/// large snapshot, so an entry takes half of what a [`Value`] takes.
#[derive(Default)]
pub(super) struct Memo {
    /// Entries 0, 1, 2 ...
    entries: Vec<Entry>,
    /// Entries beyond the first gap: a number in the file is not to be trusted with an allocation.
    sparse: HashMap<u32, Entry>,
    /// Values that an entry has no room for.
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
    /// Its number in [`Memo::others`].
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
    /// How many values it holds: the number that `MEMOIZE` gives to the next.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.sparse.len()
    }

    /// The entry of value number `i`, where there is no gap before.
    #[inline]
    pub(super) fn entry(&self, i: u32) -> Option<Entry> {
        self.entries.get(i as usize).copied()
    }

    /// Value number `i`.
    #[inline]
    pub(super) fn get(&self, i: u32) -> Option<Value> {
        match self.entries.get(i as usize) {
            Some(&entry) => Some(self.value(entry)),
            None => self.sparse.get(&i).map(|&entry| self.value(entry)),
        }
    }

    /// The frame that value number `i` is.
    #[inline]
    pub(super) fn frame(&self, i: u32) -> Option<FrameId> {
        match self.entry(i) {
            Some(Entry::Frame(frame)) => Some(frame),
            _ => None,
        }
    }

    /// Makes value number `i` another. Returns the one before.
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
                // Each stands for bytes of the file, and four billion of them would have filled the memory before.
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

    /// Puts a container that has just been opened behind the last value, and returns its number; `None` where the
    /// numbers have a gap.
    #[inline]
    pub(super) fn push_container(&mut self, slot: Option<u32>) -> Option<u32> {
        let i = u32::try_from(self.entries.len()).ok().filter(|_| self.sparse.is_empty())?;
        self.entries.push(slot.map_or(Entry::Opaque, Entry::Open));
        Some(i)
    }

    /// About how many bytes of memory it takes.
    pub(super) fn memory(&self) -> usize {
        // An entry of the map takes its size and a half, and the map is at least a third full.
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
        fn it_is_a_map(steps in prop::collection::vec((0u32..40, 0u8..9, 0u32..100, any::<bool>()), 0..80)) {
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
