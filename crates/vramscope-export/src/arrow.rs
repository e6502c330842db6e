//! Tables as Arrow arrays in memory, which other libraries read where they lie.
//!
//! Numbers are 64 bits wide, times have a time zone (UTC), and a column of texts is a dictionary: each text is there once, and
//! each row has its number.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use hashbrown::HashMap;
use vramscope_analysis::{By, Cancel, History, Moment, Origin, holders_at};
use vramscope_report::Names;

use crate::error::ExportError;
use crate::labels::Labels;
use crate::tables::{Column, Kind, Sink, Table, Value, rows_of};

/// The most bytes of different texts in a table. A few bytes of a hostile file can refer to a stack of 64 KiB; known recordings
/// have some megabytes.
const MOST_TEXT: usize = 1 << 30;

/// The time zone of times, which are counted from the Unix epoch.
const ZONE: &str = "UTC";

/// How many rows are made between two looks at whether they are still wanted.
const ROWS_BETWEEN_LOOKS: usize = 4096;

/// The table of some devices, one after the other, whose histories are of the trace of `names`.
///
/// # Errors
/// [`ExportError::TooMuchText`] for texts without end, [`ExportError::Cancelled`] where the table is no longer wanted.
pub fn arrow_table<'h>(
    names: Names<'_>,
    histories: impl IntoIterator<Item = &'h History>,
    table: Table,
    cancel: &Cancel,
) -> Result<RecordBatch, ExportError> {
    let mut builder = Builder::new(names, table.columns(), cancel);
    for history in histories {
        rows_of(history, table, &mut builder)?;
    }
    builder.finish(table.columns())
}

/// The columns of [`arrow_holders`].
const HOLDERS: [Column; 9] = [
    Column::always("device", Kind::Signed),
    Column::maybe("at_event", Kind::Unsigned),
    Column::always("key", Kind::Text),
    Column::always("bytes", Kind::Unsigned),
    Column::always("requested_bytes", Kind::Unsigned),
    Column::always("count", Kind::Unsigned),
    Column::maybe("preexisting", Kind::Bool),
    Column::maybe("line", Kind::Text),
    Column::maybe("stack", Kind::Text),
];

/// Who holds the allocated bytes of some devices: a row for each group of `by`, those with most bytes first.
///
/// It is after event `at`, or at each device's peak of allocated bytes where that is `None`. The bytes of a device sum to what is
/// allocated then.
///
/// # Errors
/// As [`arrow_table`].
pub fn arrow_holders<'h>(
    names: Names<'_>,
    histories: impl IntoIterator<Item = &'h History>,
    at: Option<usize>,
    by: By,
    cancel: &Cancel,
) -> Result<RecordBatch, ExportError> {
    let mut builder = Builder::new(names, &HOLDERS, cancel);
    for history in histories {
        let moment = at.map_or_else(|| history.peaks().allocated.moment, Moment::after);
        for holder in holders_at(history, names.frames, moment, by) {
            let mut row: [Value; HOLDERS.len()] = [
                Value::Signed(history.device().device),
                Value::or_null(moment.event(), |event| Value::Unsigned(event as u64)),
                Value::Null,
                Value::Unsigned(holder.bytes),
                Value::Unsigned(holder.requested),
                Value::Unsigned(holder.count),
                Value::or_null(holder.origin, |origin| Value::Bool(origin != Origin::Recorded)),
                Value::or_null(holder.stack, Value::Line),
                Value::or_null(holder.stack, Value::Stack),
            ];
            // Of memory whose free alone is known, the stack is where it was freed, and no holder.
            if holder.origin == Some(Origin::FreeOnly) {
                row[7..].fill(Value::Null);
            }
            for (number, value) in row.into_iter().enumerate() {
                if number == 2 {
                    builder.text(number, String::from(names.key(&holder.key)))?;
                } else {
                    builder.value(number, value)?;
                }
            }
        }
    }
    builder.finish(&HOLDERS)
}

/// The columns of a table under way.
struct Builder<'r> {
    labels: Labels<'r>,
    columns: Vec<Values>,
    /// The bytes of the texts of all columns.
    text_bytes: usize,
    rows: usize,
    cancel: &'r Cancel,
}

/// The values of a column.
enum Values {
    Signed(Int64Builder),
    Unsigned(UInt64Builder),
    Time(TimestampMicrosecondBuilder),
    Bool(BooleanBuilder),
    Text(Texts),
}

/// The different texts of a column, and for each row the number of its text.
#[derive(Default)]
struct Texts {
    keys: Int32Builder,
    texts: StringBuilder,
    /// The numbers of texts that were met before, and so are not made again.
    known: HashMap<Value, i32>,
    /// The same by what they say: two values may read alike, and a dictionary has each text once.
    by_text: HashMap<String, i32>,
}

impl Texts {
    /// The number of a text, and whether it is new.
    fn number(&mut self, text: String) -> Result<(i32, bool), ExportError> {
        if let Some(&number) = self.by_text.get(&text) {
            return Ok((number, false));
        }
        let number = i32::try_from(self.by_text.len()).map_err(|_| ArrowError::DictionaryKeyOverflowError)?;
        self.texts.append_value(&text);
        self.by_text.insert(text, number);
        Ok((number, true))
    }
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Signed => Self::Signed(Int64Builder::new()),
            Kind::Unsigned | Kind::Hex => Self::Unsigned(UInt64Builder::new()),
            Kind::Time => Self::Time(TimestampMicrosecondBuilder::new().with_timezone(ZONE)),
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
            Kind::Text => Self::Text(Texts::default()),
        }
    }

    fn finish(self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Signed(mut values) => Arc::new(values.finish()),
            Self::Unsigned(mut values) => Arc::new(values.finish()),
            Self::Time(mut values) => Arc::new(values.finish()),
            Self::Bool(mut values) => Arc::new(values.finish()),
            Self::Text(Texts { mut keys, mut texts, .. }) => {
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys.finish(), Arc::new(texts.finish()))?)
            }
        })
    }
}

/// The type of a column.
fn field(column: &Column) -> Field {
    let data_type = match column.kind {
        Kind::Signed => DataType::Int64,
        Kind::Unsigned | Kind::Hex => DataType::UInt64,
        Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
        Kind::Bool => DataType::Boolean,
        Kind::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    };
    Field::new(column.name, data_type, !column.required)
}

impl<'r> Builder<'r> {
    fn new(names: Names<'r>, columns: &[Column], cancel: &'r Cancel) -> Self {
        let columns = columns.iter().map(|column| Values::new(column.kind)).collect();
        Self { labels: Labels::new(names), columns, text_bytes: 0, rows: 0, cancel }
    }

    /// Adds a value to a column.
    fn value(&mut self, column: usize, value: Value) -> Result<(), ExportError> {
        match &mut self.columns[column] {
            Values::Signed(values) => values.append_option(signed(value)),
            Values::Time(values) => values.append_option(signed(value)),
            Values::Unsigned(values) => values.append_option(match value {
                Value::Unsigned(n) => Some(n),
                _ => None,
            }),
            Values::Bool(values) => values.append_option(match value {
                Value::Bool(b) => Some(b),
                _ => None,
            }),
            Values::Text(texts) => match (value, texts.known.get(&value)) {
                (Value::Null, _) => texts.keys.append_null(),
                (_, Some(&number)) => texts.keys.append_value(number),
                (_, None) => {
                    let text = value.in_words(&mut self.labels);
                    let number = self.text(column, text)?;
                    if let Values::Text(texts) = &mut self.columns[column] {
                        texts.known.insert(value, number);
                    }
                }
            },
        }
        Ok(())
    }

    /// Adds a text to a column of texts, and returns its number there.
    fn text(&mut self, column: usize, text: String) -> Result<i32, ExportError> {
        let Values::Text(texts) = &mut self.columns[column] else { return Ok(0) };
        let bytes = text.len();
        let (number, is_new) = texts.number(text)?;
        texts.keys.append_value(number);
        if is_new {
            self.text_bytes += bytes;
        }
        if self.text_bytes > MOST_TEXT {
            return Err(ExportError::TooMuchText { most: MOST_TEXT });
        }
        Ok(number)
    }

    fn finish(self, columns: &[Column]) -> Result<RecordBatch, ExportError> {
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        let arrays = self.columns.into_iter().map(Values::finish).collect::<Result<_, _>>()?;
        Ok(RecordBatch::try_new(Arc::new(schema), arrays)?)
    }
}

impl Sink for Builder<'_> {
    fn row(&mut self, values: &[Value]) -> Result<(), ExportError> {
        if self.rows.is_multiple_of(ROWS_BETWEEN_LOOKS) && self.cancel.is_cancelled() {
            return Err(ExportError::Cancelled);
        }
        self.rows += 1;
        values.iter().enumerate().try_for_each(|(column, &value)| self.value(column, value))
    }
}

fn signed(value: Value) -> Option<i64> {
    match value {
        Value::Signed(n) => Some(n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{TimestampMicrosecondType, UInt64Type};
    use vramscope_analysis::Frames;

    use super::*;
    use crate::testing;

    #[test]
    fn a_table_has_its_types_and_each_text_once() {
        let trace = testing::two_devices();
        let frames = Frames::of(&trace);
        let names = Names { trace: &trace, frames: &frames };
        let histories: Vec<_> =
            (0..trace.devices.len()).map(|position| History::replayed(&trace, position)).collect();
        for table in [Table::Events, Table::Allocations, Table::Segments] {
            let batch = arrow_table(names, &histories, table, &Cancel::default()).unwrap();
            assert_eq!(batch.num_columns(), table.columns().len());
            for (column, array) in table.columns().iter().zip(batch.columns()) {
                assert!(!column.required || array.null_count() == 0, "{}", column.name);
                if column.kind == Kind::Text {
                    let values = array.as_dictionary::<Int32Type>().values().clone();
                    let texts: Vec<_> = values.as_string::<i32>().iter().collect();
                    assert!(texts.iter().enumerate().all(|(i, t)| !texts[..i].contains(t)), "{texts:?}");
                }
            }
        }
        let events = arrow_table(names, &histories, Table::Events, &Cancel::default()).unwrap();
        let of = |name: &str| events.column_by_name(name).unwrap();
        assert_eq!(of("time_us").as_primitive::<TimestampMicrosecondType>().value(1), 10);
        assert_eq!(of("address").as_primitive::<UInt64Type>().value(1), 0x20_0000);
        assert_eq!(of("block_bytes").as_primitive::<UInt64Type>().value(1), 1024);
        assert!(of("device_free_bytes").is_null(1));
    }

    #[test]
    fn holders_sum_to_what_is_allocated() {
        let trace = testing::two_devices();
        let frames = Frames::of(&trace);
        let names = Names { trace: &trace, frames: &frames };
        let history = History::replayed(&trace, 0);
        let batch = arrow_holders(names, [&history], None, By::Line, &Cancel::default()).unwrap();
        let bytes = batch.column_by_name("bytes").unwrap().as_primitive::<UInt64Type>();
        assert_eq!(bytes.iter().flatten().sum::<u64>(), history.peaks().allocated.bytes);
    }

    #[test]
    fn a_table_that_nobody_wants_is_not_made() {
        let trace = testing::two_devices();
        let frames = Frames::of(&trace);
        let cancel = Cancel::default();
        cancel.cancel();
        let history = History::replayed(&trace, 0);
        let names = Names { trace: &trace, frames: &frames };
        let made = arrow_table(names, [&history], Table::Events, &cancel);
        assert!(matches!(made, Err(ExportError::Cancelled)));
    }
}
