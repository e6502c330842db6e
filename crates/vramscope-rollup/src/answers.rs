//! [`Answers`]: the rows of a query result, written as they arrive.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::Writer as JsonWriter;
use datafusion::arrow::json::writer::{JsonArray, WriterBuilder};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use vramscope_report::{Shown, harmless_cell};

/// Limit on the rows of a text table.
pub const MOST_SHOWN: usize = 1000;

/// The format of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFormat {
    /// A text table of at most [`MOST_SHOWN`] rows.
    Table,
    /// Comma-separated values, with a header.
    Csv,
    /// A JSON array with one object per row.
    Json,
    /// Apache Parquet.
    Parquet,
}

/// Writes rows in a format.
pub(crate) struct Answers<'o> {
    schema: SchemaRef,
    rows: u64,
    form: Form<'o>,
}

type Out<'o> = BufWriter<&'o mut (dyn Write + Send)>;

enum Form<'o> {
    Table { out: Out<'o>, shown: Vec<RecordBatch>, is_cut: bool },
    Csv(Box<csv::Writer<Out<'o>>>),
    Json(JsonWriter<Out<'o>, JsonArray>),
    Parquet(Box<ArrowWriter<Out<'o>>>),
}

impl<'o> Answers<'o> {
    pub(crate) fn new(
        format: AnswerFormat,
        schema: SchemaRef,
        out: &'o mut (dyn Write + Send),
    ) -> Result<Self, DataFusionError> {
        let out = BufWriter::new(out);
        let form = match format {
            AnswerFormat::Table => Form::Table { out, shown: Vec::new(), is_cut: false },
            AnswerFormat::Csv => {
                let mut out = csv::Writer::from_writer(out);
                out.write_record(schema.fields().iter().map(|f| f.name().as_str())).map_err(broken)?;
                Form::Csv(Box::new(out))
            }
            AnswerFormat::Json => Form::Json(WriterBuilder::new().with_explicit_nulls(true).build(out)),
            AnswerFormat::Parquet => {
                let zstd = Compression::ZSTD(ZstdLevel::try_new(1)?);
                let properties = WriterProperties::builder().set_compression(zstd).build();
                Form::Parquet(Box::new(ArrowWriter::try_new(out, schema.clone(), Some(properties))?))
            }
        };
        Ok(Self { schema, rows: 0, form })
    }

    /// Writes rows. Breaks if no more rows are needed.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>, DataFusionError> {
        self.rows += batch.num_rows() as u64;
        match &mut self.form {
            Form::Table { shown, is_cut, .. } => {
                let before: usize = shown.iter().map(RecordBatch::num_rows).sum();
                shown.push(batch.slice(0, batch.num_rows().min(MOST_SHOWN - before)));
                *is_cut = before + batch.num_rows() > MOST_SHOWN;
                self.rows = self.rows.min(MOST_SHOWN as u64);
                if *is_cut {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Form::Csv(out) => write_csv(out, batch)?,
            Form::Json(out) => out.write(batch)?,
            Form::Parquet(out) => out.write(batch)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Finishes the output. Returns the number of written rows, and whether rows were cut.
    pub(crate) fn finish(self) -> Result<(u64, bool), DataFusionError> {
        let mut cut = false;
        match self.form {
            Form::Table { mut out, shown, is_cut } => {
                cut = is_cut;
                let table = match shown.is_empty() {
                    true => pretty_format_batches(&[RecordBatch::new_empty(self.schema)])?,
                    false => pretty_format_batches(&shown)?,
                };
                writeln!(out, "{}", Shown::page(&table.to_string())).and_then(|()| out.flush())?;
            }
            Form::Csv(mut out) => out.flush()?,
            Form::Json(mut out) => {
                out.finish()?;
                let mut out = out.into_inner();
                writeln!(out).and_then(|()| out.flush())?;
            }
            Form::Parquet(out) => out.into_inner()?.flush()?,
        }
        Ok((self.rows, cut))
    }
}

fn write_csv(out: &mut csv::Writer<Out<'_>>, batch: &RecordBatch) -> Result<(), DataFusionError> {
    let options = FormatOptions::default();
    let columns: Vec<(bool, ArrayFormatter<'_>)> = batch
        .columns()
        .iter()
        .map(|column| Ok((is_text(column), ArrayFormatter::try_new(column, &options)?)))
        .collect::<Result<_, ArrowError>>()?;
    for row in 0..batch.num_rows() {
        for (is_text, column) in &columns {
            let cell = column.value(row).try_to_string()?;
            let cell = if *is_text { harmless_cell(&cell).into_owned() } else { cell };
            out.write_field(cell).map_err(broken)?;
        }
        out.write_record(None::<&[u8]>).map_err(broken)?;
    }
    Ok(())
}

fn is_text(column: &Arc<dyn Array>) -> bool {
    matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Returns the error of the output.
fn broken(e: csv::Error) -> DataFusionError {
    DataFusionError::IoError(match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        e => io::Error::other(format!("{e:?}")),
    })
}
