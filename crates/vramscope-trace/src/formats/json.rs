//! Snapshots as JSON: the dictionaries and lists of the pickle, written by `json.dump`.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::assembler::{Assembler, Value, push_element};
use super::window::{CHUNK, Window};
use super::{Contents, Format, FormatReader, LONGEST_STRING};
use crate::error::{ReadError, TableFull};
use crate::notices::Notices;
use crate::trace::Trace;

/// The JSON reader.
#[derive(Debug)]
pub(super) struct Json;

impl FormatReader for Json {
    fn takes(&self, start: &[u8]) -> bool {
        matches!(start, [b'{' | b'[' | b' ' | b'\n' | b'\r' | b'\t', ..])
    }

    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError> {
        let (trace, notices) = read(stream)?;
        Ok(Contents { trace, notices, format: Format::Json })
    }
}

/// Reads a JSON snapshot. `serde_json` limits the nesting depth to 128.
fn read(window: Window<'_>) -> Result<(Trace, Notices), ReadError> {
    let progress = ReadPosition::default();
    let mut reader = Reader {
        assembler: Assembler::new(window.most_memory())?,
        items: Vec::new(),
        progress: &progress,
        checked: 0,
        failed: None,
    };
    let text = BufReader::new(Watched { window, progress: &progress });
    let mut json = serde_json::Deserializer::from_reader(text);
    let root = (&mut reader).deserialize(&mut json).and_then(|root| json.end().map(|()| root));
    if let Some(e) = reader.failed {
        return Err(e);
    }
    match root {
        Ok(root) => reader.assembler.finish(root),
        Err(e) if e.is_io() => Err(std::io::Error::from(e).into()),
        Err(e) if e.is_eof() => {
            Err(ReadError::Json(format!("{e}: it is truncated; copy or record it again")))
        }
        Err(e) => Err(ReadError::Json(e.to_string())),
    }
}

/// Passes each object and array to the assembler as it closes.
struct Reader<'p> {
    assembler: Assembler,
    /// Values of all open objects and arrays, innermost last.
    items: Vec<Value>,
    progress: &'p ReadPosition,
    /// Number of bytes read at the last memory check.
    checked: u64,
    failed: Option<ReadError>,
}

impl Reader<'_> {
    /// Stores the assembler's error, because serde cannot carry it.
    fn note<T, E: serde::de::Error>(&mut self, result: Result<T, TableFull>) -> Result<T, E> {
        let result = result.map_err(ReadError::from).and_then(|value| self.check_memory().map(|()| value));
        result.map_err(|e| {
            let message = E::custom(&e);
            self.failed = Some(e);
            message
        })
    }

    fn check_memory(&mut self) -> Result<(), ReadError> {
        let read = self.progress.read.get();
        self.progress.last_value.set(read);
        if read - self.checked < CHUNK as u64 {
            return Ok(());
        }
        self.checked = read;
        self.assembler.check_memory(self.items.len() * size_of::<Value>(), read)
    }
}

/// Number of bytes read, shared by both sides of serde.
#[derive(Default)]
struct ReadPosition {
    read: Cell<u64>,
    /// Number of bytes read at the end of the last string, list or object.
    last_value: Cell<u64>,
}

/// Rejects strings longer than any in a snapshot, because serde buffers a whole string.
struct Watched<'w, 'p> {
    window: Window<'w>,
    progress: &'p ReadPosition,
}

impl Read for Watched<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.progress.read.get();
        if read - self.progress.last_value.get() > (LONGEST_STRING + CHUNK) as u64 {
            let what = format!(
                "a string, number or space of more than {LONGEST_STRING} bytes; no snapshot has one that long"
            );
            return Err(io::Error::other(ReadError::Damaged {
                offset: self.progress.last_value.get(),
                what,
            }));
        }
        let n = self.window.read(out)?;
        self.progress.read.set(read + n as u64);
        Ok(n)
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reader<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Int(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(i64::try_from(n).map_or(Value::Big(n), Value::Int))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(Value::Float(x))
    }

    fn visit_str<E: serde::de::Error>(self, s: &str) -> Result<Value, E> {
        let value = self.assembler.string(s);
        self.note(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let start = self.items.len();
        while let Some(v) = seq.next_element_seed(&mut *self)? {
            push_element(&mut self.items, start, v);
            self.progress.last_value.set(self.progress.read.get());
        }
        let value = self.assembler.list(&self.items[start..]);
        self.items.truncate(start);
        self.note(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let start = self.items.len();
        while let Some(k) = map.next_key_seed(&mut *self)? {
            self.items.push(k);
            let v = map.next_value_seed(&mut *self)?;
            self.items.push(v);
        }
        let value = self.assembler.record(&self.items[start..], None);
        self.items.truncate(start);
        self.note(value)
    }
}
