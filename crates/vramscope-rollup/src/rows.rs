//! [`Rows`]: a query result as values in memory, bounded in rows, bytes and time.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array as _, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use futures::StreamExt as _;
use serde_json::{Number, Value};
use tokio::time::Instant;
use vramscope_analysis::Cancel;

use crate::error::QueryError;
use crate::limits::{Limits, threads};
use crate::query::Job;
use crate::reading::OpenSessions;
use crate::scan::{Said, Says};
use crate::tables::SqlTable;

/// The largest whole number up to which a double is exact.
const EXACT: i64 = 1 << 53;

/// Limits of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum number of rows; further rows are left out.
    pub rows: usize,
    /// The maximum number of bytes of all values as text; further rows are left out.
    pub bytes: usize,
    /// The maximum duration; a longer query fails.
    pub time: Duration,
}

/// The rows of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The columns, each with a value for each row.
    pub columns: Vec<RowColumn>,
    /// Whether rows were left out.
    pub is_cut: bool,
    /// Recordings that could not be read, whose rows are missing, and other notes; one line each.
    pub notes: Vec<String>,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct RowColumn {
    /// Its name; several columns of a join may have the same.
    pub name: String,
    /// Whether it has numbers.
    pub is_number: bool,
    /// The values by row: null, a number, or a text. Whole numbers beyond 2^53, and numbers that JSON does not have, are texts.
    pub values: Vec<Value>,
}

/// Returns the names of the tables, each with the names of its columns.
#[must_use]
pub fn tables() -> Vec<(&'static str, Vec<String>)> {
    let columns = |table: SqlTable| table.schema().fields().iter().map(|f| f.name().clone()).collect();
    SqlTable::ALL.into_iter().map(|table| (table.name(), columns(table))).collect()
}

impl Job {
    /// Runs a read-only statement in this process, and returns its first rows. Recordings in `held` are not read.
    ///
    /// # Errors
    /// The statement is not a valid read-only query, it takes too long, or it was cancelled.
    pub fn rows(
        &self,
        sql: &str,
        held: OpenSessions,
        bounds: Bounds,
        cancel: &Cancel,
    ) -> Result<Rows, QueryError> {
        let runtime = threads()?;
        let (job, sql) = (self.clone(), sql.to_owned());
        let answered = runtime.block_on(async {
            let end = Instant::now() + bounds.time;
            let limits = Limits { time: Some((bounds.time, end)), cancel: cancel.clone() };
            limits.within(async move { job.first_rows(&sql, &Arc::new(held), bounds).await }).await
        });
        // Ends the query's tasks at their next step.
        runtime.shutdown_background();
        answered
    }

    async fn first_rows(
        &self,
        sql: &str,
        held: &Arc<OpenSessions>,
        bounds: Bounds,
    ) -> Result<Rows, QueryError> {
        let says = Says::default();
        let frame = self.frame(sql, held, &says).await?;
        let column = |field: &Arc<Field>| RowColumn {
            name: field.name().clone(),
            is_number: field.data_type().is_integer() || field.data_type().is_floating(),
            values: Vec::new(),
        };
        let mut columns: Vec<RowColumn> = frame.schema().inner().fields().iter().map(column).collect();
        let (mut left, mut is_cut) = (bounds, false);
        let mut stream = frame.execute_stream().await?;
        while let Some(batch) = stream.next().await {
            is_cut = !append(&mut columns, &batch?, &mut left)?;
            if is_cut {
                break;
            }
        }
        let Said { broken, notes } = says.all();
        let broken = broken.into_iter().map(|(file, why)| format!("{file}: {why}"));
        Ok(Rows { columns, is_cut, notes: notes.into_iter().chain(broken).collect() })
    }
}

/// Appends the rows of a batch until `left` is used up. Returns whether all rows were appended.
fn append(
    columns: &mut [RowColumn],
    batch: &RecordBatch,
    left: &mut Bounds,
) -> Result<bool, DataFusionError> {
    let options = FormatOptions::default();
    let formats: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<Result<_, ArrowError>>()?;
    for row in 0..batch.num_rows() {
        if left.rows == 0 || left.bytes == 0 {
            return Ok(false);
        }
        left.rows -= 1;
        for ((column, format), array) in columns.iter_mut().zip(&formats).zip(batch.columns()) {
            let text = match array.is_null(row) {
                true => None,
                false => Some(format.value(row).try_to_string()?),
            };
            left.bytes = left.bytes.saturating_sub(text.as_ref().map_or(1, String::len));
            column.values.push(text.map_or(Value::Null, |text| value(text, array.data_type())));
        }
    }
    Ok(true)
}

/// Returns a number if the page can represent it, otherwise the text.
fn value(text: String, kind: &DataType) -> Value {
    let number = if kind.is_integer() {
        text.parse().ok().filter(|whole| (-EXACT..=EXACT).contains(whole)).map(Number::from)
    } else if kind.is_floating() {
        text.parse().ok().and_then(Number::from_f64)
    } else {
        None
    };
    number.map_or(Value::String(text), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_a_page_cannot_represent_stay_text() {
        for (text, kind, expected) in [
            ("9007199254740992", DataType::UInt64, json!(9_007_199_254_740_992_u64)),
            ("9007199254740993", DataType::UInt64, json!("9007199254740993")),
            ("18446744073709551615", DataType::UInt64, json!("18446744073709551615")),
            ("-9223372036854775808", DataType::Int64, json!("-9223372036854775808")),
            ("-1", DataType::Int64, json!(-1)),
            ("NaN", DataType::Float64, json!("NaN")),
            ("1.5", DataType::Float64, json!(1.5)),
            ("12", DataType::Utf8View, json!("12")),
        ] {
            assert_eq!(value(text.to_owned(), &kind), expected);
        }
    }
}
