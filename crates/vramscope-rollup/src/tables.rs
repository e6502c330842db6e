//! [`SqlTable`]: the SQL tables, each with columns that identify the recording.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};
use vramscope_export::{SUMMARY_COLUMNS, Table, arrow_schema, arrow_summary_schema};
use vramscope_fleet::RankFile;

/// An SQL table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SqlTable {
    Events,
    Allocations,
    Segments,
    Holders,
    Summary,
}

/// Number of columns that identify the recording in every table: `rank`, `host`, `file`.
pub(crate) const WHOSE: usize = 3;

/// The column types of the tables, in the order of [`SqlTable::ALL`].
static SCHEMAS: LazyLock<Vec<SchemaRef>> = LazyLock::new(|| {
    let schema = |table: &SqlTable| {
        let all = |columns: usize| (0..columns).collect::<Vec<_>>();
        let own = match table.export() {
            Some(table) => arrow_schema(table, &all(table.columns().len())),
            None => arrow_summary_schema(&all(SUMMARY_COLUMNS.len())),
        };
        let mut fields = whose_fields();
        fields.extend(own.fields().iter().map(|field| with_plain_text(field)));
        Arc::new(Schema::new(fields))
    };
    SqlTable::ALL.iter().map(schema).collect()
});

impl SqlTable {
    pub(crate) const ALL: [Self; 5] =
        [Self::Events, Self::Allocations, Self::Segments, Self::Holders, Self::Summary];

    /// Returns the export table with the same rows; `None` for summaries, which have no export table.
    pub(crate) fn export(self) -> Option<Table> {
        match self {
            Self::Events => Some(Table::Events),
            Self::Allocations => Some(Table::Allocations),
            Self::Segments => Some(Table::Segments),
            Self::Holders => Some(Table::Holders),
            Self::Summary => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.export().map_or("summary", Table::name)
    }

    /// Returns the column types.
    pub(crate) fn schema(self) -> SchemaRef {
        SCHEMAS[self as usize].clone()
    }

    /// Returns the types of some columns.
    pub(crate) fn projected(self, columns: &[usize]) -> SchemaRef {
        let schema = self.schema();
        Arc::new(Schema::new(columns.iter().map(|&at| schema.field(at).clone()).collect::<Vec<_>>()))
    }
}

/// Returns the types of the columns that identify the recording.
pub(crate) fn whose_fields() -> Vec<Field> {
    vec![
        Field::new("rank", DataType::Int64, false),
        Field::new("host", DataType::Utf8View, true),
        Field::new("file", DataType::Utf8View, false),
    ]
}

/// Replaces dictionaries by string views: both store each text once per batch, but all SQL functions accept views.
fn with_plain_text(field: &Field) -> Field {
    match field.data_type() {
        DataType::Dictionary(..) => field.clone().with_data_type(DataType::Utf8View),
        _ => field.clone(),
    }
}

/// Returns the values of the columns that identify the recording.
pub(crate) fn whose(recording: &RankFile) -> [ScalarValue; WHOSE] {
    [
        ScalarValue::Int64(i64::try_from(recording.rank.number).ok()),
        ScalarValue::Utf8View(recording.rank.host.clone()),
        ScalarValue::Utf8View(Some(recording.place.to_string())),
    ]
}

/// Rows of a recording for a query: `columns` of the table. `own` contains the table's other columns in the same order.
pub(crate) fn rows(
    schema: &SchemaRef,
    columns: &[usize],
    recording: &RankFile,
    own: &RecordBatch,
) -> Result<RecordBatch> {
    let whose = whose(recording);
    let mut own_columns = own.columns().iter();
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (&column, field) in columns.iter().zip(schema.fields()) {
        match whose.get(column) {
            Some(value) => arrays.push(value.to_array_of_size(own.num_rows())?),
            None => {
                arrays.extend(own_columns.next().map(|array| cast(array, field.data_type())).transpose()?);
            }
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(own.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
}
