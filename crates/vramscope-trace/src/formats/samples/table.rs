//! Logs of samples as CSV.

use super::fields::Field;
use super::gather::Gather;
use super::json::metadata;
use super::row::Row;
use crate::error::ReadError;
use crate::formats::rows::{RowEnd, Rows};
use crate::formats::window::Window;

/// Reads a table with a header. Ignores columns with unknown names. Returns whether the last row is cut off.
pub(super) fn read_table(window: Window<'_>, gather: &mut Gather) -> Result<bool, ReadError> {
    let mut rows = Rows::new(window, |_| true);
    if !rows.next()? {
        return Ok(false);
    }
    let first_name = rows.field(0).into_owned();
    let columns: Vec<Option<Field>> = (0..rows.len()).map(|i| Field::of_row(rows.field(i).trim())).collect();
    let (count, time) = (columns.len(), columns.iter().position(|&of| of.is_some_and(Field::is_time)));
    rows.set_begins(move |line| is_row(line, count, time));
    while rows.next()? {
        // The header of a second table appended to the first.
        if rows.field(0) == first_name {
            continue;
        }
        // Too few columns: the row is cut off, or invalid.
        let is_short = rows.len() < count;
        if is_short && rows.end() == RowEnd::AtEnd {
            return Ok(true);
        }
        if is_short || rows.end() == RowEnd::Damaged {
            gather.push(None);
            continue;
        }
        let mut row = Row::default();
        let mut is_valid = true;
        for (i, field) in columns.iter().enumerate() {
            match field {
                Some(Field::Metadata) => metadata(&rows.field(i), &mut row),
                Some(field) => is_valid &= field.text(&rows.field(i), &mut row),
                None => {}
            }
        }
        gather.push(Some(row).filter(|_| is_valid));
    }
    Ok(false)
}

/// Whether a row with this many columns begins with a line: it has as many, and a number as its time.
fn is_row(line: &[u8], columns: usize, time: Option<usize>) -> bool {
    let fields = || line.split(|&byte| byte == b',');
    let is_number = |field: &[u8]| std::str::from_utf8(field).is_ok_and(|text| text.parse::<f64>().is_ok());
    fields().count() >= columns && time.and_then(|at| fields().nth(at)).is_some_and(is_number)
}
