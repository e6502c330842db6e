//! The table of holders, one row per line, category and layer with allocated bytes at the peak.

use vramscope_analysis::{By, History, Origin, When, holders_at};
use vramscope_report::Names;

use super::{Column, ColumnKind, Sink, Value};
use crate::error::ExportError;

pub(crate) const COLUMNS: [Column; 10] = [
    Column::always("device", ColumnKind::Signed),
    Column::maybe("at_event", ColumnKind::Unsigned),
    Column::always("grouped_by", ColumnKind::Text),
    Column::always("key", ColumnKind::Text),
    Column::always("bytes", ColumnKind::Unsigned),
    Column::always("requested_bytes", ColumnKind::Unsigned),
    Column::always("count", ColumnKind::Unsigned),
    Column::maybe("preexisting", ColumnKind::Bool),
    Column::maybe("line", ColumnKind::Text),
    Column::maybe("stack", ColumnKind::Text),
];

/// The groupings of the table. The bytes of each grouping sum to the allocated bytes.
pub(super) const GROUPS: [By; 3] = [By::Line, By::Category, By::Layer];

/// Writes the rows of some groupings, at the moment `at` or at the peak of allocated bytes, most bytes first.
pub(crate) fn rows(
    names: Names<'_>,
    history: &History,
    at: Option<When>,
    groups: &[By],
    sink: &mut dyn Sink,
) -> Result<u64, ExportError> {
    let moment = at.map_or_else(|| history.peaks().allocated.moment, |when| history.moment(when));
    let mut count = 0;
    for &by in groups {
        for holder in holders_at(history, names.frames, moment, by) {
            let key = String::from(names.key(&holder.key));
            // If only the free of memory was recorded, its stack is that of the free, not of a holder.
            let stack = holder.stack.filter(|_| holder.origin != Some(Origin::FreeOnly));
            let row: [Value<'_>; COLUMNS.len()] = [
                Value::Signed(history.device().device),
                Value::or_null(moment.event(), |event| Value::Unsigned(event as u64)),
                Value::Word(by.name()),
                Value::Shown(&key),
                Value::Unsigned(holder.bytes),
                Value::Unsigned(holder.requested),
                Value::Unsigned(holder.count),
                Value::or_null(holder.origin, |origin| Value::Bool(origin != Origin::Recorded)),
                Value::or_null(stack, Value::Line),
                Value::or_null(stack, Value::Stack),
            ];
            sink.row(&row)?;
            count += 1;
        }
    }
    Ok(count)
}
