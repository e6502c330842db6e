//! A recording as tables, row by row, a file for each table. CSV and Parquet have the same tables.

pub(crate) mod allocations;
mod events;
pub(crate) mod holders;
pub(crate) mod segments;
#[cfg(feature = "summaries")]
pub(crate) mod summary;

use vramscope_analysis::{History, Moment, event_times};
use vramscope_report::Names;
use vramscope_trace::{PoolId, StackId, StringId};

use crate::error::ExportError;
use crate::labels::{Labels, pool};
use crate::source::Source;

/// A table of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Table {
    /// One row for each event as it was recorded, with the counters after it.
    #[default]
    Events,
    /// One row for each allocation, with its lifetime.
    Allocations,
    /// One row for each range taken from the device, with its lifetime.
    Segments,
    /// Who holds the allocated bytes at their peak, one row for each line, each category and each layer.
    Holders,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 4] = [Self::Events, Self::Allocations, Self::Segments, Self::Holders];

    /// The table's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Allocations => "allocations",
            Self::Segments => "segments",
            Self::Holders => "holders",
        }
    }

    /// The table's columns, in order.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Events => &events::COLUMNS,
            Self::Allocations => &allocations::COLUMNS,
            Self::Segments => &segments::COLUMNS,
            Self::Holders => &holders::COLUMNS,
        }
    }
}

/// A column of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The column's name, which ends in its unit.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Whether every row has a value.
    pub required: bool,
}

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, which may be negative.
    Signed,
    /// A whole number that is not negative.
    Unsigned,
    /// An address or a `cudaStream_t`, of 64 bits; written in hexadecimal in CSV.
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
    pub(crate) const fn always(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: true }
    }

    /// A column that may be empty.
    pub(crate) const fn maybe(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: false }
    }
}

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value<'v> {
    /// No value.
    Null,
    /// A value of [`Kind::Signed`] or [`Kind::Time`].
    Signed(i64),
    /// A value of [`Kind::Unsigned`] or [`Kind::Hex`].
    Unsigned(u64),
    Bool(bool),
    /// A text of this program, which is known to be harmless.
    Word(&'static str),
    /// A text that was made harmless.
    Shown(&'v str),
    /// A text of the recording, which may be hostile.
    Text(StringId),
    Pool(PoolId),
    /// The label of the frame that a stack is named by.
    Line(StackId),
    /// The label of a whole stack.
    Stack(StackId),
}

impl Value<'_> {
    pub(crate) fn or_null<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Null, make)
    }

    /// What a text is known by as long as the recording is there; `None` of a text that is known by itself alone.
    pub(crate) fn key(self) -> Option<Value<'static>> {
        Some(match self {
            Self::Shown(_) => return None,
            Self::Null => Value::Null,
            Self::Signed(n) => Value::Signed(n),
            Self::Unsigned(n) => Value::Unsigned(n),
            Self::Bool(b) => Value::Bool(b),
            Self::Word(word) => Value::Word(word),
            Self::Text(id) => Value::Text(id),
            Self::Pool(id) => Value::Pool(id),
            Self::Line(id) => Value::Line(id),
            Self::Stack(id) => Value::Stack(id),
        })
    }

    /// The text of a value of [`Kind::Text`].
    pub(crate) fn in_words(self, labels: &mut Labels<'_>) -> String {
        match self {
            Self::Word(word) => word.to_owned(),
            Self::Shown(text) => text.to_owned(),
            Self::Text(id) => labels.text(id),
            Self::Pool(id) => pool(id),
            Self::Line(id) => labels.own_frame(Some(id)).to_string(),
            Self::Stack(id) => labels.stack(id),
            Self::Null | Self::Signed(_) | Self::Unsigned(_) | Self::Bool(_) => String::new(),
        }
    }
}

/// A format that the rows of a table are written to.
pub(crate) trait Sink {
    /// Writes one row, with a value for each column.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError>;

    /// Whether the values of a column are looked at. One that is not may be [`Value::Null`].
    fn wants(&self, _column: usize) -> bool {
        true
    }
}

/// Writes every row of `table` to `sink`, device by device, and returns the number of rows.
pub(crate) fn rows(source: &Source<'_>, table: Table, sink: &mut dyn Sink) -> Result<u64, ExportError> {
    let mut count = 0;
    for history in source.histories() {
        count += rows_of(source.names(), &history, table, sink)?;
    }
    Ok(count)
}

/// Writes every row of one device, and returns the number of rows.
pub(crate) fn rows_of(
    names: Names<'_>,
    history: &History,
    table: Table,
    sink: &mut dyn Sink,
) -> Result<u64, ExportError> {
    match table {
        Table::Events => events::rows(history, sink),
        Table::Allocations => allocations::rows(history, sink),
        Table::Segments => segments::rows(history, sink),
        Table::Holders => holders::rows(names, history, None, &holders::GROUPS, sink),
    }
}

/// The time of each moment, which is that of the event before it.
struct Times(Option<Vec<i64>>);

impl Times {
    /// The times of events, raised where they would fall, so that no lifetime is negative.
    fn of(history: &History) -> Self {
        Self(event_times(history.device()))
    }

    fn at(&self, moment: Moment) -> Option<i64> {
        self.0.as_ref()?.get(moment.event()?).copied()
    }

    fn value(&self, moment: Moment) -> Value<'static> {
        Value::or_null(self.at(moment), Value::Signed)
    }

    /// Microseconds from one moment to another, where the times of both are known.
    fn between(&self, from: Moment, to: Moment) -> Value<'static> {
        let span = self.at(from).zip(self.at(to)).map(|(a, b)| b.saturating_sub(a).max(0));
        Value::or_null(span, |us| Value::Unsigned(us.unsigned_abs()))
    }
}

/// The number of the event that a moment follows; `None` before the first event and at the end.
fn event_before(moment: Moment) -> Value<'static> {
    let event = moment.event().filter(|_| moment != Moment::NEVER);
    Value::or_null(event, |event| Value::Unsigned(event as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_are_unique_and_say_their_unit() {
        for table in Table::ALL {
            let columns = table.columns();
            for (i, c) in columns.iter().enumerate() {
                assert!(columns[..i].iter().all(|other| other.name != c.name), "{}", c.name);
                assert!(c.kind != Kind::Time || c.name.ends_with("_us"), "{}", c.name);
            }
        }
    }
}
