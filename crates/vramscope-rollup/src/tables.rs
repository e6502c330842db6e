//! [`SqlTable`]: the tables of SQL, each with the columns that tell whose rows they are.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};
use vramscope_export::{SUMMARY_COLUMNS, Table, arrow_schema, arrow_summary_schema};
use vramscope_fleet::RankFile;

/// A table that queries know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SqlTable {
    Events,
    Allocations,
    Segments,
    Holders,
    Summary,
}

/// How many columns of every table tell whose rows they are: `rank`, `host`, `file`.
pub(crate) const WHOSE: usize = 3;

/// The types of the tables, in the order of [`SqlTable::ALL`].
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

    /// The table of an export that has its rows; `None` of summaries, which are not made of what is in memory alone.
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

    /// The types of its columns.
    pub(crate) fn schema(self) -> SchemaRef {
        SCHEMAS[self as usize].clone()
    }

    /// The types of some of its columns.
    pub(crate) fn projected(self, columns: &[usize]) -> SchemaRef {
        let schema = self.schema();
        Arc::new(Schema::new(columns.iter().map(|&at| schema.field(at).clone()).collect::<Vec<_>>()))
    }
}

/// The types of the columns that tell whose rows they are.
pub(crate) fn whose_fields() -> Vec<Field> {
    vec![
        Field::new("rank", DataType::Int64, false),
        Field::new("host", DataType::Utf8View, true),
        Field::new("file", DataType::Utf8View, false),
    ]
}

/// A dictionary lets each text be there once in a batch, and so do views, which every function of SQL takes.
fn with_plain_text(field: &Field) -> Field {
    match field.data_type() {
        DataType::Dictionary(..) => field.clone().with_data_type(DataType::Utf8View),
        _ => field.clone(),
    }
}

/// What the columns that tell whose rows they are say of a recording.
pub(crate) fn whose(recording: &RankFile) -> [ScalarValue; WHOSE] {
    [
        ScalarValue::Int64(i64::try_from(recording.rank.number).ok()),
        ScalarValue::Utf8View(recording.rank.host.clone()),
        ScalarValue::Utf8View(Some(recording.place.to_string())),
    ]
}

/// Rows of a recording as a query takes them: `columns` of the table, of which `own` has those of its own in the same order.
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
