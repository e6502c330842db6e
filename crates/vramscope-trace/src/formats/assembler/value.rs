//! Values on their way from a reader to the records that use them.

use crate::formats::keys::KEYS;
use crate::ids::{FrameId, StackId, StringId};

/// One value of the file: a plain value, or the number of a record in the assembler. 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::formats) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer above `i64::MAX`.
    Big(u64),
    Float(f64),
    Str(StringId),
    Frame(FrameId),
    Stack(StackId),
    EmptyList,
    /// A run of `len` events from the event index `first` on.
    Events {
        first: u32,
        len: u32,
    },
    Block(u32),
    Segment(u32),
    Annotation(u32),
    History(u32),
    Settings(u32),
    Divisions(u32),
    Pool(u32),
    Root(u32),
    List(u32),
    /// A list of at least [`MOST_PLAIN`] plain values, which is not kept.
    LongList,
    /// A record that violates the schema; only an error if the schema requires the record.
    Bad(u32),
    /// A value without a known meaning.
    Opaque,
    /// A container that its reader has not closed yet. Only the pickle machine creates it.
    Open(u32),
    /// An empty open dictionary, with its index in the memo. Only the pickle machine creates it.
    OpenDict(Option<std::num::NonZeroU32>),
}

/// Lists of at least this many plain values mean nothing in a snapshot and are not kept, so that one byte of the file does not cost
/// many bytes of memory.
pub(super) const MOST_PLAIN: usize = 4096;

impl Value {
    /// Whether the value is neither a record nor made of records.
    pub(super) fn is_plain(self) -> bool {
        use Value::*;
        matches!(
            self,
            None | Bool(_) | Int(_) | Big(_) | Float(_) | Str(_) | EmptyList | Pool(_) | LongList | Opaque
        )
    }
}

/// Appends `value` to the list that begins at index `start`.
pub(in crate::formats) fn push_element(values: &mut Vec<Value>, start: usize, value: Value) {
    match values.get(start) {
        None => values.push(value),
        Some(first) if values.len() - start >= MOST_PLAIN && first.is_plain() => {}
        // A plain value between records is already an error; further ones add nothing.
        Some(_) if value.is_plain() && values.len() - start >= MOST_PLAIN && ends_plain(values) => {}
        Some(_) => push_joined(values, value),
    }
}

fn ends_plain(values: &[Value]) -> bool {
    values.last().is_some_and(|last| last.is_plain())
}

/// Appends `value`. Merges consecutive events into one run.
pub(in crate::formats) fn push_joined(values: &mut Vec<Value>, value: Value) {
    if let (Some(Value::Events { first, len }), Value::Events { first: next, len: more }) =
        (values.last_mut(), value)
        && first.checked_add(*len) == Some(next)
    {
        *len += more;
        return;
    }
    values.push(value);
}

/// Returns the number of a known key.
#[inline]
pub(in crate::formats) fn known(key: Value) -> Option<usize> {
    match key {
        Value::Str(id) if id.index() < KEYS.len() => Some(id.index()),
        _ => None,
    }
}

pub(super) fn set<T>(slot: &mut Option<T>, v: Option<T>) -> Option<()> {
    *slot = Some(v?);
    Some(())
}

/// Like [`set`], but Python's `None` leaves the slot empty.
pub(super) fn optional<T>(
    slot: &mut Option<T>,
    v: Value,
    read: impl FnOnce(Value) -> Option<T>,
) -> Option<()> {
    if matches!(v, Value::None) { Some(()) } else { set(slot, read(v)) }
}

pub(super) fn as_string(v: Value) -> Option<StringId> {
    match v {
        Value::Str(id) => Some(id),
        _ => None,
    }
}

pub(super) fn as_bool(v: Value) -> Option<bool> {
    match v {
        Value::Bool(b) => Some(b),
        Value::Int(0) => Some(false),
        Value::Int(1) => Some(true),
        _ => None,
    }
}

pub(super) fn as_float(v: Value) -> Option<f64> {
    match v {
        Value::Float(x) => Some(x).filter(|x| x.is_finite()),
        Value::Int(n) => Some(n as f64),
        _ => None,
    }
}

pub(super) fn signed(v: Value) -> Option<i64> {
    match v {
        Value::Int(n) => Some(n),
        _ => None,
    }
}

/// Returns a number that some writers cast through `size_t`: above `i64::MAX` it is negative.
pub(super) fn wrapped(v: Value) -> Option<i64> {
    match v {
        Value::Int(n) => Some(n),
        Value::Big(n) => Some(n as i64),
        _ => None,
    }
}

pub(super) fn unsigned(v: Value) -> Option<u64> {
    match v {
        Value::Int(n) => u64::try_from(n).ok(),
        Value::Big(n) => Some(n),
        _ => None,
    }
}

/// Returns an address or a stream. libtorch's pickler casts them to `int64_t`, so high values appear negative.
pub(super) fn address(v: Value) -> Option<u64> {
    match v {
        Value::Int(n) => Some(n as u64),
        Value::Big(n) => Some(n),
        _ => None,
    }
}
