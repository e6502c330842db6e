//! Tables as Apache Parquet: Zstandard compression, a dictionary per text column, row groups of bounded size.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;
use hashbrown::HashMap;

use vramscope_report::{Names, Shown};

use crate::error::ExportError;
use crate::labels::Labels;
use crate::part::Part;
use crate::source::Source;
#[cfg(feature = "summaries")]
use crate::tables::summary;
use crate::tables::{Column, ColumnKind, Sink, Table, Value, rows};

/// Limit on the rows of a row group.
const ROWS: usize = 1 << 16;

/// Limit on the bytes of distinct texts in a row group.
const TEXT: usize = 32 << 20;

/// Writes a table; returns the number of rows.
pub(crate) fn write(source: &Source<'_>, table: Table, out: impl Write + Send) -> Result<u64, ExportError> {
    write_rows(table.name(), table.columns(), source.names(), out, |sink| rows(source, table, sink))
}

/// Writes a table as a part of a dataset, with the part's columns first; returns the number of rows.
pub(crate) fn write_part(
    source: &Source<'_>,
    table: Table,
    part: &Part<'_>,
    out: impl Write + Send,
) -> Result<u64, ExportError> {
    write_behind(part, table.name(), table.columns(), source.names(), out, |sink| rows(source, table, sink))
}

/// Writes the row of a recording in the table of summaries; returns the number of rows.
#[cfg(feature = "summaries")]
pub(crate) fn write_summary_part(
    row: &vramscope_fleet::RankRow,
    out: impl Write + Send,
) -> Result<u64, ExportError> {
    let trace = vramscope_trace::Trace::default();
    let names = Names { trace: &trace, frames: &vramscope_analysis::Frames::of(&trace) };
    let part = Part { host: row.rank.host.as_deref(), file: &row.file };
    write_behind(&part, "summary", &summary::COLUMNS, names, out, |sink| {
        summary::row(row, sink)?;
        Ok(1)
    })
}

/// Writes rows with the columns of a part first.
fn write_behind(
    part: &Part<'_>,
    name: &str,
    columns: &[Column],
    names: Names<'_>,
    out: impl Write + Send,
    rows: impl FnOnce(&mut dyn Sink) -> Result<u64, ExportError>,
) -> Result<u64, ExportError> {
    let (host, file) = (part.host.map(Shown::of), Shown::of(part.file));
    let before = [Value::or_null(host.as_deref(), Value::Shown), Value::Shown(&file)];
    let columns = [&Part::COLUMNS, columns].concat();
    write_rows(name, &columns, names, out, |sink| rows(&mut Behind { before: &before, sink }))
}

/// A sink that puts constant values in front of each row.
struct Behind<'s> {
    before: &'s [Value<'s>],
    sink: &'s mut dyn Sink,
}

impl Sink for Behind<'_> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        self.sink.row(&[self.before, values].concat())
    }
}

/// Writes the rows of a table.
fn write_rows(
    name: &str,
    columns: &[Column],
    names: Names<'_>,
    out: impl Write + Send,
    rows: impl FnOnce(&mut dyn Sink) -> Result<u64, ExportError>,
) -> Result<u64, ExportError> {
    let fields = columns.iter().map(|c| field(c).map(Arc::new)).collect::<Result<_, ParquetError>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("vramscope ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        // All texts of a row group fit into the dictionary of their column, so each is written once.
        .set_dictionary_page_size_limit(TEXT + (4 * ROWS) + (1 << 20))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build();
    let mut sink = Parquet {
        out: SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?,
        labels: Labels::new(names),
        columns: columns.iter().map(Buffer::new).collect(),
        rows: 0,
        texts: HashMap::new(),
        shown: HashMap::new(),
        text_bytes: 0,
    };
    let count = rows(&mut sink)?;
    sink.write_group()?;
    sink.out.close()?;
    Ok(count)
}

/// Returns the type of a column in the file.
fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        ColumnKind::Signed => (Physical::INT64, Some(LogicalType::integer(64, true))),
        ColumnKind::Unsigned | ColumnKind::Hex => (Physical::INT64, Some(LogicalType::integer(64, false))),
        ColumnKind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        ColumnKind::Bool => (Physical::BOOLEAN, None),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

struct Parquet<'r, W: Write + Send> {
    out: SerializedFileWriter<W>,
    labels: Labels<'r>,
    columns: Vec<Buffer>,
    /// The number of buffered rows.
    rows: usize,
    /// The distinct texts in the buffers.
    texts: HashMap<Value<'static>, ByteArray>,
    shown: HashMap<String, ByteArray>,
    text_bytes: usize,
}

/// The values of a column since the last row group.
struct Buffer {
    /// For an optional column: per row, 1 if there is a value.
    levels: Option<Vec<i16>>,
    values: Values,
}

enum Values {
    Numbers(Vec<i64>),
    Bools(Vec<bool>),
    Texts(Vec<ByteArray>),
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            ColumnKind::Signed | ColumnKind::Unsigned | ColumnKind::Hex | ColumnKind::Time => {
                Values::Numbers(Vec::new())
            }
            ColumnKind::Bool => Values::Bools(Vec::new()),
            ColumnKind::Text => Values::Texts(Vec::new()),
        };
        Self { levels: (!column.required).then(Vec::new), values }
    }

    fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Values::Numbers(v) => {
                column.typed::<Int64Type>().write_batch(v, levels, None)?;
                v.clear();
            }
            Values::Bools(v) => {
                column.typed::<BoolType>().write_batch(v, levels, None)?;
                v.clear();
            }
            Values::Texts(v) => {
                column.typed::<ByteArrayType>().write_batch(v, levels, None)?;
                v.clear();
            }
        }
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

impl<W: Write + Send> Parquet<'_, W> {
    /// Returns a text, stored once per row group.
    fn text(&mut self, value: Value<'_>) -> ByteArray {
        let known = match value {
            Value::Shown(text) => self.shown.get(text),
            _ => value.key().and_then(|key| self.texts.get(&key)),
        };
        if let Some(bytes) = known {
            return bytes.clone();
        }
        let text = value.in_words(&mut self.labels);
        self.text_bytes += text.len();
        let bytes = ByteArray::from(text.as_str());
        match value.key() {
            Some(key) => self.texts.insert(key, bytes.clone()),
            None => self.shown.insert(text, bytes.clone()),
        };
        bytes
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for buffer in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            buffer.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        self.texts.clear();
        self.shown.clear();
        self.text_bytes = 0;
        Ok(())
    }
}

impl<W: Write + Send> Sink for Parquet<'_, W> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        for (i, &value) in values.iter().enumerate() {
            let text = match value {
                Value::Null | Value::Signed(_) | Value::Unsigned(_) | Value::Bool(_) => None,
                _ => Some(self.text(value)),
            };
            let buffer = &mut self.columns[i];
            if let Some(levels) = &mut buffer.levels {
                levels.push(i16::from(value != Value::Null));
            }
            match (&mut buffer.values, value) {
                (Values::Numbers(v), Value::Signed(n)) => v.push(n),
                // Parquet stores the bits of an unsigned number as a signed one.
                (Values::Numbers(v), Value::Unsigned(n)) => v.push(n.cast_signed()),
                (Values::Bools(v), Value::Bool(b)) => v.push(b),
                (Values::Texts(v), _) => v.extend(text),
                _ => {}
            }
        }
        self.rows += 1;
        if self.rows >= ROWS || self.text_bytes >= TEXT {
            self.write_group()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    use ::parquet::record::Field;

    use crate::{ExportFormat, ExportOptions, Table, testing};

    /// The tests of the command also read it with pyarrow.
    #[test]
    fn parquet_files_read_back_with_their_types() {
        for table in Table::ALL {
            let options = ExportOptions { table, ..ExportOptions::default() };
            let (bytes, written) = testing::export(&testing::two_devices(), ExportFormat::Parquet, &options);
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
            assert_eq!(reader.metadata().file_metadata().num_rows() as u64, written.rows);
            let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
            assert_eq!(rows.len() as u64, written.rows);
            if table == Table::Events {
                let row: Vec<(String, Field)> =
                    rows[1].get_column_iter().map(|(n, f)| (n.clone(), f.clone())).collect();
                let value = |name: &str| row.iter().find(|(n, _)| n == name).unwrap().1.clone();
                assert_eq!(value("time_us"), Field::TimestampMicros(10));
                assert_eq!(value("address"), Field::ULong(0x20_0000));
                assert_eq!(value("action"), Field::Str("alloc".to_owned()));
                assert_eq!(value("device_free_bytes"), Field::Null);
                assert_eq!(value("block_bytes"), Field::ULong(1024));
            }
        }
    }
}
