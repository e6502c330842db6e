//! Tables as Arrow arrays in memory, which other libraries read without copying.
//!
//! Numbers are 64 bits wide, times have the time zone UTC, and text columns are dictionaries, which store each text once.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use hashbrown::HashMap;
use vramscope_analysis::{By, Cancel, History, When};
use vramscope_report::Names;

use crate::error::ExportError;
use crate::labels::Labels;
#[cfg(feature = "summaries")]
use crate::tables::summary;
use crate::tables::{Column, ColumnKind, Sink, Table, Value, holders, rows_of};

/// Limit on the bytes of distinct texts in a table. A few bytes of a hostile file can refer to a stack of 64 KiB; known recordings have
/// some megabytes.
const MOST_TEXT: usize = 1 << 30;

/// Bytes of distinct texts after which a batch ends.
const TEXT_OF_A_BATCH: usize = 8 << 20;

/// The time zone of times, which count from the Unix epoch.
const ZONE: &str = "UTC";

/// Number of rows between two checks for cancellation.
const ROWS_BETWEEN_LOOKS: usize = 4096;

/// Returns the table of some devices, one after the other. The histories must belong to the trace of `names`.
///
/// # Errors
/// [`ExportError::TooMuchText`] above the limit on texts, [`ExportError::Cancelled`] after cancellation.
pub fn arrow_table<'h>(
    names: Names<'_>,
    histories: impl IntoIterator<Item = &'h History>,
    table: Table,
    cancel: &Cancel,
) -> Result<RecordBatch, ExportError> {
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let mut whole = Whole { builder: Builder::new(names, table.columns(), &columns), cancel };
    for history in histories {
        rows_of(names, history, table, &mut whole)?;
    }
    Ok(whole.builder.batch()?)
}

/// Returns the types of some columns of a table, by their indices in [`Table::columns`].
#[must_use]
pub fn arrow_schema(table: Table, columns: &[usize]) -> SchemaRef {
    schema(table.columns(), columns)
}

/// Returns the types of some columns of the table of summaries, by their indices in [`SUMMARY_COLUMNS`](crate::SUMMARY_COLUMNS).
#[cfg(feature = "summaries")]
#[must_use]
pub fn arrow_summary_schema(columns: &[usize]) -> SchemaRef {
    schema(&summary::COLUMNS, columns)
}

/// Emits the table of some devices, in batches of about `rows` rows. It contains only `columns`, by their indices in
/// [`Table::columns`]; values of other columns are not computed. Ends early if `emit` breaks.
///
/// # Errors
/// An error of the Arrow library.
pub fn arrow_batches<'h>(
    names: Names<'_>,
    histories: impl IntoIterator<Item = &'h History>,
    table: Table,
    columns: &[usize],
    rows: usize,
    emit: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
) -> Result<(), ExportError> {
    let mut batches = InBatches { builder: Builder::new(names, table.columns(), columns), rows, emit };
    for history in histories {
        match rows_of(names, history, table, &mut batches) {
            Ok(_) => {}
            // `emit` has stopped.
            Err(ExportError::Cancelled) => return Ok(()),
            Err(e) => return Err(e),
        }
    }
    match batches.end() {
        Err(ExportError::Cancelled) => Ok(()),
        ended => ended,
    }
}

/// Returns the holders of the allocated bytes of some devices: one row per group of `by`, most bytes first.
///
/// The state is taken after event `at`, or at each device's peak of allocated bytes if `at` is `None`. The bytes of a device sum to its
/// allocated bytes at that event.
///
/// # Errors
/// As for [`arrow_table`].
pub fn arrow_holders<'h>(
    names: Names<'_>,
    histories: impl IntoIterator<Item = &'h History>,
    at: Option<When>,
    by: By,
    cancel: &Cancel,
) -> Result<RecordBatch, ExportError> {
    // All columns except the grouping key, which the caller knows.
    let all = holders::COLUMNS.iter().enumerate();
    let columns: Vec<usize> = all.filter(|(_, c)| c.name != "grouped_by").map(|(place, _)| place).collect();
    let mut whole = Whole { builder: Builder::new(names, &holders::COLUMNS, &columns), cancel };
    for history in histories {
        holders::rows(names, history, at, &[by], &mut whole)?;
    }
    Ok(whole.builder.batch()?)
}

/// Returns the table of summaries as one batch. It contains only `columns`, by their indices in
/// [`SUMMARY_COLUMNS`](crate::SUMMARY_COLUMNS).
///
/// # Errors
/// As for [`arrow_table`].
#[cfg(feature = "summaries")]
pub fn arrow_summaries(
    rows: &[vramscope_fleet::RankRow],
    columns: &[usize],
) -> Result<RecordBatch, ExportError> {
    let trace = vramscope_trace::Trace::default();
    let names = Names { trace: &trace, frames: &vramscope_analysis::Frames::of(&trace) };
    let builder = Builder::new(names, &summary::COLUMNS, columns);
    let mut whole = Whole { builder, cancel: &Cancel::default() };
    for row in rows {
        summary::row(row, &mut whole)?;
    }
    Ok(whole.builder.batch()?)
}

/// A sink that collects one batch.
struct Whole<'r> {
    builder: Builder<'r>,
    cancel: &'r Cancel,
}

impl Sink for Whole<'_> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        if self.builder.rows.is_multiple_of(ROWS_BETWEEN_LOOKS) && self.cancel.is_cancelled() {
            return Err(ExportError::Cancelled);
        }
        self.builder.add(values)?;
        if self.builder.text_bytes > MOST_TEXT {
            return Err(ExportError::TooMuchText { most: MOST_TEXT });
        }
        Ok(())
    }

    fn wants(&self, column: usize) -> bool {
        self.builder.has(column)
    }
}

/// A sink that emits batches as they fill.
struct InBatches<'r, 'e> {
    builder: Builder<'r>,
    rows: usize,
    emit: &'e mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
}

impl InBatches<'_, '_> {
    fn end(&mut self) -> Result<(), ExportError> {
        if self.builder.rows == 0 {
            return Ok(());
        }
        match (self.emit)(self.builder.batch()?) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ExportError::Cancelled),
        }
    }
}

impl Sink for InBatches<'_, '_> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        self.builder.add(values)?;
        if self.builder.rows >= self.rows || self.builder.text_bytes >= TEXT_OF_A_BATCH {
            self.end()?;
        }
        Ok(())
    }

    fn wants(&self, column: usize) -> bool {
        self.builder.has(column)
    }
}

/// The columns of a table that is being built.
struct Builder<'r> {
    labels: Labels<'r>,
    schema: SchemaRef,
    /// Each column with its index in a row.
    columns: Vec<(usize, Values)>,
    /// The bytes of the texts of all columns.
    text_bytes: usize,
    rows: usize,
}

/// The values of a column.
enum Values {
    Signed(Int64Builder),
    Unsigned(UInt64Builder),
    Time(TimestampMicrosecondBuilder),
    Bool(BooleanBuilder),
    Text(Texts),
}

/// The distinct texts of a column, and the number of the text of each row.
#[derive(Default)]
struct Texts {
    keys: Int32Builder,
    texts: StringBuilder,
    /// The numbers of known values. Their texts are not built again.
    known: HashMap<Value<'static>, i32>,
    /// The numbers of known texts. Two values may have the same text, and a dictionary stores each text once.
    by_text: HashMap<String, i32>,
}

impl Texts {
    /// Adds a value, and returns the bytes of its text if the text is new.
    fn add(&mut self, value: Value<'_>, labels: &mut Labels<'_>) -> Result<usize, ExportError> {
        if value == Value::Null {
            self.keys.append_null();
            return Ok(0);
        }
        let key = value.key();
        if let Some(&number) = key.as_ref().and_then(|key| self.known.get(key)) {
            self.keys.append_value(number);
            return Ok(0);
        }
        let text = value.in_words(labels);
        let (number, new_bytes) = match self.by_text.get(&text) {
            Some(&number) => (number, 0),
            None => {
                let number =
                    i32::try_from(self.by_text.len()).map_err(|_| ArrowError::DictionaryKeyOverflowError)?;
                self.texts.append_value(&text);
                let bytes = text.len();
                self.by_text.insert(text, number);
                (number, bytes)
            }
        };
        if let Some(key) = key {
            self.known.insert(key, number);
        }
        self.keys.append_value(number);
        Ok(new_bytes)
    }
}

impl Values {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Signed => Self::Signed(Int64Builder::new()),
            ColumnKind::Unsigned | ColumnKind::Hex => Self::Unsigned(UInt64Builder::new()),
            ColumnKind::Time => Self::Time(TimestampMicrosecondBuilder::new().with_timezone(ZONE)),
            ColumnKind::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnKind::Text => Self::Text(Texts::default()),
        }
    }

    /// Returns the added values, and resets the builder.
    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Signed(values) => Arc::new(values.finish()),
            Self::Unsigned(values) => Arc::new(values.finish()),
            Self::Time(values) => Arc::new(values.finish()),
            Self::Bool(values) => Arc::new(values.finish()),
            Self::Text(texts) => {
                let Texts { mut keys, texts: mut words, .. } = std::mem::take(texts);
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys.finish(), Arc::new(words.finish()))?)
            }
        })
    }
}

/// Returns the types of the columns at these indices.
fn schema(columns: &[Column], places: &[usize]) -> SchemaRef {
    Arc::new(Schema::new(places.iter().map(|&place| field(&columns[place])).collect::<Vec<_>>()))
}

/// Returns the type of a column.
fn field(column: &Column) -> Field {
    let data_type = match column.kind {
        ColumnKind::Signed => DataType::Int64,
        ColumnKind::Unsigned | ColumnKind::Hex => DataType::UInt64,
        ColumnKind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
        ColumnKind::Bool => DataType::Boolean,
        ColumnKind::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    };
    Field::new(column.name, data_type, !column.required)
}

impl<'r> Builder<'r> {
    /// A builder for the columns of a table at these indices.
    fn new(names: Names<'r>, columns: &[Column], places: &[usize]) -> Self {
        Self {
            labels: Labels::new(names),
            schema: schema(columns, places),
            columns: places.iter().map(|&place| (place, Values::new(columns[place].kind))).collect(),
            text_bytes: 0,
            rows: 0,
        }
    }

    /// Whether the column with this index is included.
    fn has(&self, column: usize) -> bool {
        self.columns.iter().any(|&(place, _)| place == column)
    }

    /// Adds a row.
    fn add(&mut self, row: &[Value<'_>]) -> Result<(), ExportError> {
        for (place, values) in &mut self.columns {
            let value = row[*place];
            match values {
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
                Values::Text(texts) => self.text_bytes += texts.add(value, &mut self.labels)?,
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns the added rows, and resets the builder.
    fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.iter_mut().map(|(_, values)| values.finish()).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        self.text_bytes = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
    }
}

fn signed(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Signed(n) => Some(n),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
