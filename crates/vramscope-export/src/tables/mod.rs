//! A recording as tables, row by row: one file a table. CSV and Parquet hold the same ones.

pub(crate) mod allocations;
mod events;
pub(crate) mod segments;

use vramscope_analysis::{History, Moment, event_times};
use vramscope_trace::{PoolId, StackId, StringId};

use crate::error::ExportError;
use crate::source::Source;

/// A table of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Table {
    /// One row an event, as recorded, with the counters after it.
    #[default]
    Events,
    /// One row an allocation, with its lifetime.
    Allocations,
    /// One row a range taken from the device, with its lifetime.
    Segments,
}

impl Table {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Allocations => "allocations",
            Self::Segments => "segments",
        }
    }

    /// Its columns, in order.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Events => &events::COLUMNS,
            Self::Allocations => &allocations::COLUMNS,
            Self::Segments => &segments::COLUMNS,
        }
    }
}

/// A column of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, with its unit.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Every row has a value.
    pub required: bool,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Signed,
    /// A whole number from 0.
    Unsigned,
    /// An address or a `cudaStream_t`: 64 bits, hexadecimal where it is text.
    Hex,
    /// Microseconds since the Unix epoch.
    Time,
    /// Yes or no.
    Bool,
    /// Text.
    Text,
}

impl Column {
    /// A column with a value in every row.
    const fn always(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: true }
    }

    /// A column that may be empty.
    const fn maybe(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: false }
    }
}

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// Empty.
    Null,
    /// Of [`Kind::Signed`] and [`Kind::Time`].
    Signed(i64),
    /// Of [`Kind::Unsigned`] and [`Kind::Hex`].
    Unsigned(u64),
    Bool(bool),
    /// Text of ours.
    Word(&'static str),
    /// Text of the recording.
    Text(StringId),
    Pool(PoolId),
    /// The frame a stack is named by.
    Line(StackId),
    /// A whole stack.
    Stack(StackId),
}

impl Value {
    fn or_null<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Null, make)
    }
}

/// Takes the rows of a table.
pub(crate) trait Sink {
    /// Takes one row, a value for each column.
    fn row(&mut self, values: &[Value]) -> Result<(), ExportError>;
}

/// Hands every row of `table` to `sink`, device by device; returns their number.
pub(crate) fn rows(source: &Source<'_>, table: Table, sink: &mut dyn Sink) -> Result<u64, ExportError> {
    let mut count = 0;
    for history in source.histories() {
        count += match table {
            Table::Events => events::rows(&history, sink),
            Table::Allocations => allocations::rows(&history, sink),
            Table::Segments => segments::rows(&history, sink),
        }?;
    }
    Ok(count)
}

/// When moments were: the time of the event before.
struct Times(Option<Vec<i64>>);

impl Times {
    /// Times that never fall, so that no lifetime is negative.
    fn of(history: &History) -> Self {
        Self(event_times(history.device()))
    }

    fn at(&self, moment: Moment) -> Option<i64> {
        self.0.as_ref()?.get(moment.event()?).copied()
    }

    fn value(&self, moment: Moment) -> Value {
        Value::or_null(self.at(moment), Value::Signed)
    }

    /// Microseconds from one moment to another, where both are known.
    fn between(&self, from: Moment, to: Moment) -> Value {
        let span = self.at(from).zip(self.at(to)).map(|(a, b)| b.saturating_sub(a).max(0));
        Value::or_null(span, |us| Value::Unsigned(us.unsigned_abs()))
    }
}

/// The event that a moment follows; nothing before the first event and after the end.
fn event_before(moment: Moment) -> Value {
    let event = moment.event().filter(|_| moment != Moment::NEVER);
    Value::or_null(event, |event| Value::Unsigned(event as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_are_unique_and_say_their_unit() {
        for table in [Table::Events, Table::Allocations, Table::Segments] {
            let columns = table.columns();
            for (i, c) in columns.iter().enumerate() {
                assert!(columns[..i].iter().all(|other| other.name != c.name), "{}", c.name);
                assert!(c.kind != Kind::Time || c.name.ends_with("_us"), "{}", c.name);
            }
        }
    }
}
