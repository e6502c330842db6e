//! Tables as comma-separated values (RFC 4180): a header, empty fields for unknown values, `\n` as line end.
//!
//! Texts are written unchanged, with two exceptions: line breaks and characters that control a terminal are escaped as `\u{a}`, and a text
//! that a spreadsheet would evaluate as a formula gets a `'` in front.

use std::io::{self, BufWriter, Write};

use vramscope_report::harmless_cell;

use crate::error::ExportError;
use crate::labels::{Labels, pool};
use crate::source::Source;
use crate::tables::{Column, ColumnKind, Sink, Table, Value, rows};

/// Writes a table; returns the number of rows without the header.
pub(crate) fn write(source: &Source<'_>, table: Table, out: impl Write) -> Result<u64, ExportError> {
    let mut sink = Csv {
        out: csv::Writer::from_writer(BufWriter::new(out)),
        columns: table.columns(),
        labels: Labels::finished_by(source.names(), harmless_cell),
        field: Vec::new(),
    };
    sink.out.write_record(sink.columns.iter().map(|c| c.name)).map_err(broken)?;
    let count = rows(source, table, &mut sink)?;
    sink.out.flush()?;
    Ok(count)
}

/// Returns the I/O error of the output. The command needs it to recognize a closed pipe.
fn broken(e: csv::Error) -> io::Error {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        e => io::Error::other(format!("{e:?}")),
    }
}

struct Csv<'r, W: Write> {
    out: csv::Writer<W>,
    columns: &'static [Column],
    labels: Labels<'r>,
    field: Vec<u8>,
}

impl<W: Write> Csv<'_, W> {
    fn field(&mut self, kind: ColumnKind, value: Value<'_>) -> Result<(), csv::Error> {
        self.field.clear();
        match (value, kind) {
            (Value::Null, _) => {}
            (Value::Unsigned(n), ColumnKind::Hex) => write!(self.field, "{n:#x}")?,
            (Value::Unsigned(n), _) => write!(self.field, "{n}")?,
            (Value::Signed(n), _) => write!(self.field, "{n}")?,
            (Value::Bool(b), _) => write!(self.field, "{b}")?,
            (Value::Word(word), _) => return self.out.write_field(word),
            (Value::Shown(text), _) => return self.out.write_field(harmless_cell(text).as_bytes()),
            (Value::Text(id), _) => return self.out.write_field(self.labels.text(id).as_bytes()),
            (Value::Pool(id), _) => return self.out.write_field(pool(id)),
            (Value::Line(id), _) => {
                let line = self.labels.own_frame(Some(id));
                return self.out.write_field(harmless_cell(&line).as_bytes());
            }
            (Value::Stack(id), _) => return self.out.write_field(self.labels.stack(id).as_bytes()),
        }
        self.out.write_field(&self.field)
    }
}

impl<W: Write> Sink for Csv<'_, W> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        for (column, &value) in self.columns.iter().zip(values) {
            self.field(column.kind, value).map_err(broken)?;
        }
        self.out.write_record(None::<&[u8]>).map_err(broken)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
