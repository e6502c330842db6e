//! Snapshots as JSON: the same dictionaries and lists, written by `json.dump`.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::assembler::{Assembler, Value, push_element};
use super::window::Window;
use crate::error::{ReadError, TableFull};
use crate::notices::Notices;
use crate::trace::Trace;

/// Reads a JSON snapshot. `serde_json` bounds the nesting at 128.
pub(super) fn read(window: Window<'_>) -> Result<(Trace, Notices), ReadError> {
    let mut reader = Reader { assembler: Assembler::new()?, items: Vec::new(), table_full: None };
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::new(window));
    let root = (&mut reader).deserialize(&mut json).and_then(|root| json.end().map(|()| root));
    if let Some(full) = reader.table_full {
        return Err(full.into());
    }
    match root {
        Ok(root) => reader.assembler.finish(root),
        Err(e) if e.is_io() => Err(ReadError::Io(e.into())),
        Err(e) if e.is_eof() => {
            Err(ReadError::Json(format!("{e}: it is truncated; copy or record it again")))
        }
        Err(e) => Err(ReadError::Json(e.to_string())),
    }
}

/// Hands each object and array to the assembler as it closes.
struct Reader {
    assembler: Assembler,
    /// Values of all objects and arrays that are still open, innermost last.
    items: Vec<Value>,
    table_full: Option<TableFull>,
}

impl Reader {
    /// Passes the assembler's error through serde, which cannot carry it.
    fn note<T, E: serde::de::Error>(&mut self, result: Result<T, TableFull>) -> Result<T, E> {
        result.map_err(|e| {
            self.table_full = Some(e);
            E::custom(e)
        })
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reader {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader {
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
