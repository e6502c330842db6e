//! Values as they travel from a reader to the records that take them.

use crate::formats::keys::KEYS;
use crate::ids::{FrameId, StackId, StringId};

/// One value of the file: a plain one, or the number of a record the assembler keeps. 16 bytes.
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
    /// `len` events in a row, of which `first` is the first.
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
    /// A list of [`MOST_PLAIN`] or more plain values, which is not kept.
    LongList,
    /// A record that breaks the schema; an error only where the schema needs it.
    Bad(u32),
    /// A value of no known meaning.
    Opaque,
    /// A container that its reader has not closed yet; only the pickle machine makes it.
    Open(u32),
    /// A dictionary that nothing was put into yet, with its place in the memo; only the pickle machine.
    OpenDict(Option<std::num::NonZeroU32>),
}

/// Lists of at least so many plain values mean nothing in a snapshot and are not kept: a byte of the file must
/// not cost many of memory.
pub(super) const MOST_PLAIN: usize = 4096;

impl Value {
    /// Neither a record nor made of records.
    pub(super) fn is_plain(self) -> bool {
        use Value::*;
        matches!(
            self,
            None | Bool(_) | Int(_) | Big(_) | Float(_) | Str(_) | EmptyList | Pool(_) | LongList | Opaque
        )
    }
}

/// Appends `value` to the list that begins at `start`.
pub(in crate::formats) fn push_element(values: &mut Vec<Value>, start: usize, value: Value) {
    match values.get(start) {
        None => values.push(value),
        Some(first) if values.len() - start >= MOST_PLAIN && first.is_plain() => {}
        // One beside records is an error where it stands; further ones add nothing.
        Some(_) if value.is_plain() && values.len() - start >= MOST_PLAIN && ends_plain(values) => {}
        Some(_) => push_joined(values, value),
    }
}

fn ends_plain(values: &[Value]) -> bool {
    values.last().is_some_and(|last| last.is_plain())
}

/// Appends `value`, joining events that follow each other into one run.
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

/// The number of a known key.
#[inline]
pub(super) fn known(key: Value) -> Option<usize> {
    match key {
        Value::Str(id) if id.index() < KEYS.len() => Some(id.index()),
        _ => None,
    }
}

pub(super) fn set<T>(slot: &mut Option<T>, v: Option<T>) -> Option<()> {
    *slot = Some(v?);
    Some(())
}

/// As [`set`], where Python's `None` leaves the slot empty.
pub(super) fn optional<T>(
    slot: &mut Option<T>,
    v: Value,
    read: impl FnOnce(Value) -> Option<T>,
) -> Option<()> {
    if v == Value::None { Some(()) } else { set(slot, read(v)) }
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

/// A number that some writers cast through `size_t`: above `i64::MAX` it is a negative one.
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

/// An address or a stream: libtorch's own pickler casts them to `int64_t`, so a high one comes negative.
pub(super) fn address(v: Value) -> Option<u64> {
    match v {
        Value::Int(n) => Some(n as u64),
        Value::Big(n) => Some(n),
        _ => None,
    }
}
