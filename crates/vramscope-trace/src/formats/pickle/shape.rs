//! The keys of the last entry.
//!
//! A recording has millions of dictionaries with the same keys in the same order, and a repeated key is a reference to the memo. So the
//! bytes before each value are the same as in the previous entry, and one comparison replaces the decoding of an opcode.

use crate::formats::assembler::{Value, known};
use crate::formats::keys::KEYS;
use crate::ids::StringId;

use super::opcode::{BINGET, LONG_BINGET};

/// The known keys of the last entry, in order.
pub(super) struct Shape {
    keys: Vec<WrittenKey>,
    /// Memo index of each known key, by key number.
    places: [Option<u32>; KEYS.len()],
}

/// A key, and the opcode that refers to it.
#[derive(Clone, Copy)]
pub(super) struct WrittenKey {
    pub(super) key: StringId,
    /// Size of the opcode and its argument in bytes.
    pub(super) length: usize,
    /// The bytes of the opcode and its argument, little-endian.
    bytes: u64,
}

impl WrittenKey {
    /// Whether `bytes` begin with a reference to this key.
    #[inline]
    pub(super) fn begins(&self, bytes: &[u8; 8]) -> bool {
        (u64::from_le_bytes(*bytes) ^ self.bytes) << (64 - 8 * self.length) == 0
    }
}

impl Shape {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), places: [None; KEYS.len()] }
    }

    /// Key `n` of the last entry.
    #[inline]
    pub(super) fn key(&self, n: usize) -> Option<WrittenKey> {
        self.keys.get(n).copied()
    }

    /// Stores the keys of an entry. `items` is key, value, key, value and so on.
    pub(super) fn keep(&mut self, items: &[Value]) {
        let Self { keys, places } = self;
        keys.clear();
        keys.extend(items.iter().step_by(2).map_while(|&value| {
            let Value::Str(key) = value else { return None };
            let place = places[known(value)?]?;
            let [a, b, c, d] = place.to_le_bytes();
            let (length, bytes) = match u8::try_from(place) {
                Ok(a) => (2, [BINGET, a, 0, 0, 0, 0, 0, 0]),
                Err(_) => (5, [LONG_BINGET, a, b, c, d, 0, 0, 0]),
            };
            Some(WrittenKey { key, length, bytes: u64::from_le_bytes(bytes) })
        }));
    }

    /// Records that `value` was put into the memo at index `place`.
    #[inline]
    pub(super) fn put(&mut self, place: u32, value: Value) {
        if let Some(key) = known(value) {
            self.places[key] = Some(place);
        }
    }

    /// Records that the memo index of `value` was overwritten.
    pub(super) fn overwritten(&mut self, value: Value) {
        if let Some(key) = known(value) {
            self.places[key] = None;
            self.keys.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::assembler::Assembler;

    #[test]
    fn keys_are_recognised_by_their_bytes() {
        let mut assembler = Assembler::new(u64::MAX).unwrap();
        let mut shape = Shape::new();
        let [action, addr, other] = ["action", "addr", "other"].map(|s| assembler.string(s).unwrap());
        shape.put(7, action);
        shape.put(0x0102_0304, addr);
        shape.keep(&[action, Value::None, addr, Value::Int(1), other, Value::Int(2), action, Value::None]);
        let [first, second] = [0, 1].map(|n| shape.key(n).unwrap());
        assert!(shape.key(2).is_none(), "keys after an unknown key are not predicted");
        assert!(Value::Str(first.key) == action && Value::Str(second.key) == addr);
        assert!(first.begins(&[BINGET, 7, 1, 2, 3, 4, 5, 6]));
        assert!(!first.begins(&[BINGET, 8, 1, 2, 3, 4, 5, 6]));
        assert!(!first.begins(&[LONG_BINGET, 7, 0, 0, 0, 4, 5, 6]));
        assert!(second.begins(&[LONG_BINGET, 4, 3, 2, 1, 9, 9, 9]));
        assert!(!second.begins(&[LONG_BINGET, 4, 3, 2, 2, 9, 9, 9]));
        shape.overwritten(addr);
        assert!(shape.key(0).is_none());
        shape.keep(&[action, Value::None, addr, Value::Int(1)]);
        assert!(shape.key(0).is_some() && shape.key(1).is_none());
    }
}
