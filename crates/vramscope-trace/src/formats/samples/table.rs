//! Logs of samples as CSV.

use std::io::BufReader;

use super::fields::Field;
use super::gather::Gather;
use super::guard::{Ends, Guard};
use super::json::metadata;
use super::row::Row;
use super::{stopped, text};
use crate::error::ReadError;
use crate::formats::window::Window;

/// Reads a table with a header. Ignores columns with unknown names.
pub(super) fn read_table(window: Window<'_>, gather: &mut Gather) -> Result<bool, ReadError> {
    let stream = Guard::new(BufReader::new(window), Ends::Records);
    let mut table = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(stream);
    let mut record = csv::ByteRecord::new();
    let mut columns: Vec<Option<Field>> = Vec::new();
    let mut first_name = Vec::new();
    // Whether the previous row has too few columns: it is a truncated last row, or invalid.
    let mut is_short = false;
    loop {
        match table.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(is_short),
            Err(e) => {
                return match e.into_kind() {
                    csv::ErrorKind::Io(e) => stopped(e),
                    _ => Ok(true),
                };
            }
        }
        if std::mem::take(&mut is_short) {
            gather.push(None);
        }
        if columns.is_empty() {
            columns = record.iter().map(|name| Field::of_row(text(name).trim())).collect();
            first_name = record.get(0).unwrap_or_default().to_vec();
            continue;
        }
        // The header of a second table appended to the first.
        if record.get(0) == Some(&first_name) {
            continue;
        }
        is_short = record.len() < columns.len();
        if !is_short {
            let mut row = Row::default();
            for (field, cell) in columns.iter().zip(&record) {
                match field {
                    Some(Field::Metadata) => metadata(text(cell), &mut row),
                    Some(field) => field.text(text(cell), &mut row),
                    None => {}
                }
            }
            gather.push(Some(row));
        }
    }
}
