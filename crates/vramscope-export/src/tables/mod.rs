//! The tables of a recording, row by row, one file per table. CSV and Parquet have the same tables.

pub(crate) mod allocations;
mod events;
pub(crate) mod holders;
mod segments;
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
    /// One row per event as it was recorded, with the counters after it.
    #[default]
    Events,
    /// One row per allocation, with its lifetime.
    Allocations,
    /// One row per range reserved from the device, with its lifetime.
    Segments,
    /// The holders of the allocated bytes at the peak, one row per line, category and layer.
    Holders,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 4] = [Self::Events, Self::Allocations, Self::Segments, Self::Holders];

    /// Returns the table's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Allocations => "allocations",
            Self::Segments => "segments",
            Self::Holders => "holders",
        }
    }

    /// Returns the table's columns, in order.
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
    pub kind: ColumnKind,
    /// Whether every row has a value.
    pub required: bool,
}

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// An address or a `cudaStream_t`, of 64 bits; hexadecimal in CSV.
    Hex,
    /// Microseconds since the Unix epoch.
    Time,
    /// A Boolean.
    Bool,
    /// Text.
    Text,
}

impl Column {
    /// A column with a value in every row.
    pub(crate) const fn always(name: &'static str, kind: ColumnKind) -> Self {
        Self { name, kind, required: true }
    }

    /// A column that may be empty.
    pub(crate) const fn maybe(name: &'static str, kind: ColumnKind) -> Self {
        Self { name, kind, required: false }
    }
}

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Value<'v> {
    /// No value.
    Null,
    /// A value of [`ColumnKind::Signed`] or [`ColumnKind::Time`].
    Signed(i64),
    /// A value of [`ColumnKind::Unsigned`] or [`ColumnKind::Hex`].
    Unsigned(u64),
    Bool(bool),
    /// A fixed text of this program, which is safe to print.
    Word(&'static str),
    /// A text that was made safe to print.
    Shown(&'v str),
    /// A text of the recording, which may be hostile.
    Text(StringId),
    Pool(PoolId),
    /// The label of the frame that names a stack.
    Line(StackId),
    /// The label of a whole stack.
    Stack(StackId),
}

impl Value<'_> {
    pub(crate) fn or_null<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Null, make)
    }

    /// Returns an identifier of a text that is valid as long as the recording; `None` for a text without one.
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

    /// Returns the text of a value of [`ColumnKind::Text`].
    pub(crate) fn in_words(self, labels: &mut Labels<'_>) -> String {
        match self {
            Self::Word(word) => word.to_owned(),
            Self::Shown(text) => text.to_owned(),
            Self::Text(id) => labels.text(id).to_string(),
            Self::Pool(id) => pool(id),
            Self::Line(id) => labels.own_frame(Some(id)).to_string(),
            Self::Stack(id) => labels.stack(id).to_string(),
            Self::Null | Self::Signed(_) | Self::Unsigned(_) | Self::Bool(_) => String::new(),
        }
    }
}

/// A format that the rows of a table are written to.
pub(crate) trait Sink {
    /// Writes one row, with a value for each column.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError>;

    /// Whether the sink uses a column. Values of unused columns may be [`Value::Null`].
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

/// The time of each moment: the time of the preceding event.
struct Times(Option<Vec<i64>>);

impl Times {
    /// Returns the times of events, made monotonic so that no lifetime is negative.
    fn of(history: &History) -> Self {
        Self(event_times(history.device()))
    }

    fn at(&self, moment: Moment) -> Option<i64> {
        self.0.as_ref()?.get(moment.event()?).copied()
    }

    fn value(&self, moment: Moment) -> Value<'static> {
        Value::or_null(self.at(moment), Value::Signed)
    }

    /// Returns the microseconds between two moments, if both times are known.
    fn between(&self, from: Moment, to: Moment) -> Value<'static> {
        let span = self.at(from).zip(self.at(to)).map(|(a, b)| b.saturating_sub(a).max(0));
        Value::or_null(span, |us| Value::Unsigned(us.unsigned_abs()))
    }
}

/// Returns the index of the event before a moment; `None` before the first event and at the end.
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
                assert!(c.kind != ColumnKind::Time || c.name.ends_with("_us"), "{}", c.name);
            }
        }
    }
}
