//! Rows of a JSON log of samples.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::Field;
use super::row::Row;

/// Parses a row from a JSON object, or returns `None` if it is invalid.
pub(super) fn row(json: &[u8]) -> Option<Row> {
    let mut row = Row::default();
    let mut json = serde_json::Deserializer::from_slice(json);
    let read = Cell { field: Some(Field::Row), row: &mut row }.deserialize(&mut json);
    read.and_then(|()| json.end()).ok().map(|()| row)
}

/// Stores the metadata of an event, given as JSON text, in a row. Invalid JSON is read up to the error.
pub(super) fn metadata(text: &str, row: &mut Row) {
    let mut json = serde_json::Deserializer::from_str(text);
    Cell { field: Some(Field::Metadata), row }.deserialize(&mut json).ok();
}

/// Target of the next value: a field of a row, or none.
pub(super) struct Cell<'r> {
    pub(super) field: Option<Field>,
    pub(super) row: &'r mut Row,
}

impl<'de> DeserializeSeed<'de> for Cell<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.field {
            Some(_) => from.deserialize_any(self),
            None => from.deserialize_ignored_any(IgnoredAny).map(|_| ()),
        }
    }
}

/// A value of the wrong type is ignored.
impl<'de> Visitor<'de> for Cell<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, is: bool) -> Result<(), E> {
        if self.field == Some(Field::HighIsExact) {
            self.row.high_is_exact = is;
        }
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.field.into_iter().for_each(|field| field.number(number, self.row));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.field.into_iter().for_each(|field| field.value(number as f64, self.row));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.field.into_iter().for_each(|field| field.value(value, self.row));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        use Field::{Collector, Event, Message, OomReason, Phases};
        // A number in quotes is ignored.
        if let Some(field @ (Event | Message | Collector | Phases | OomReason)) = self.field {
            field.text(text, self.row);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let field = self.field.filter(|&field| field == Field::Phases);
        while list.next_element_seed(Cell { field, row: self.row })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let named = match self.field {
            Some(Field::Row) => Field::of_row,
            Some(Field::Metadata) => Field::of_metadata,
            _ => |_: &str| None,
        };
        while let Some(field) = map.next_key_seed(Key(named))? {
            map.next_value_seed(Cell { field, row: self.row })?;
        }
        Ok(())
    }
}

/// Parses the field that a key names.
struct Key(fn(&str) -> Option<Field>);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<Field>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok((self.0)(name))
    }
}
